"""A real API server with the CRD, and users whose rights are those that the chart and Kubernetes give people."""

import time
from collections.abc import Iterator

import pytest
import yaml

from tests.contract.operator.conftest import ROOT, Cluster, rendered_chart
from tests.support.apiserver import ApiServerProcess
from tests.support.waiting import HANG_SECONDS

ROLES = {
    # Nothing aggregates roles here, so each part is bound by itself.
    "viewer": ("system:aggregate-to-view", "eventconsumer-viewer"),
    "editor": ("system:aggregate-to-view", "system:aggregate-to-edit", "eventconsumer-viewer", "eventconsumer-editor"),
    "nobody": (),
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API server; its users are those of `ROLES`."""
    server = ApiServerProcess(tmp_path_factory.mktemp("apiserver-cli"), users=tuple(ROLES))
    server.start()
    try:
        made = Cluster(server)
        made.define(ROOT / "crds/eventconsumers.yaml", "eventconsumers.eventconsumer.io")
        made.kubectl("apply", "--server-side", "-f", "-", stdin=_user_roles())
        for user, roles in ROLES.items():
            for role in roles:
                name = f"{user}-{role.replace(':', '-')}"
                made.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", f"--user={user}")
        _wait_for_rights(made)
        yield made
    finally:
        server.stop()


def _wait_for_rights(cluster: Cluster) -> None:
    """Wait until the API server's cache has the last binding that was made."""
    asked = ("auth", "can-i", "patch", "eventconsumers.eventconsumer.io", "--as=editor")
    deadline = time.monotonic() + HANG_SECONDS
    while cluster.kubectl(*asked, check=False).stdout.strip() != "yes":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _user_roles() -> str:
    rendered = rendered_chart("fleetKey.create=false")
    names = {"eventconsumer-viewer", "eventconsumer-editor"}
    found = [each for each in yaml.safe_load_all(rendered) if each and each["metadata"]["name"] in names]
    assert {each["metadata"]["name"] for each in found} == names
    return yaml.safe_dump_all(found)
