"""A resource definition that was applied, until the API server serves it."""

import json
from collections.abc import Callable

from tests.support.waiting import wait_until


def wait_until_served(kubectl: Callable[..., str], name: str) -> None:
    """Wait until a resource definition is established.

    Not `kubectl wait`: it fails at once where the status has no conditions yet ("conditions accessor error"), which is
    so for a moment after the creation.

    Args:
        kubectl: Runs kubectl with the arguments; its standard output.
        name: Of the definition, as `eventconsumers.eventconsumer.io`.
    """

    def established() -> bool:
        status = json.loads(kubectl("get", "crd", name, "-o", "json")).get("status", {})
        conditions = {one["type"]: one["status"] for one in status.get("conditions") or []}
        return conditions.get("Established") == "True"

    wait_until(established, f"{name} is established")
