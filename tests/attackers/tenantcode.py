"""Code of a tenant in pods of the operator: from a spec to a real host process with the environment of its manifest."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.settings import Settings
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.support.waiting import HANG_SECONDS
from tests.unit.operator.worlds import batch, fleet, observed, report

HOST = "from eventconsumer_tools.cli import main; main()"
SECRET = "AccountKey=of-the-installation"  # noqa: S105 - of a test


def planned(spec: dict[str, Any], settings: Settings) -> Plan | Refused:
    """What the operator makes of a spec, with a batch for Spark to process."""
    world = observed(spec, reports={"orders-host-0": report(fleet=fleet(committed=4, batch=batch(5)))})
    try:
        return make_plan(world, settings)
    except SpecError as error:
        return Refused(f"the operator: {error}")


def container_of(plan: Plan, component: str) -> Manifest:
    """The container of the hosts, or of the Spark driver."""
    (template,) = (
        each["spec"]["template"]
        for each in (*plan.applied, *plan.jobs)
        if each["kind"] in ("StatefulSet", "Job") and each["metadata"]["labels"][labels.LABEL_COMPONENT] == component
    )
    (container,) = template["spec"]["containers"]
    return dict(container)


@dataclass(frozen=True)
class Host:
    """A real host process, started as its manifest says.

    Attributes:
        folder: A folder for its configuration and its mounted Secret.
        program: Python code that starts it.
        code: The image's folder of code; empty: that of the shipped image.
    """

    folder: Path
    program: str = HOST
    code: str = ""

    @property
    def secret(self) -> Path:
        """The file with its credential."""
        return self.folder / "connection-string"

    @property
    def loot(self) -> Path:
        """Where code of the tenant puts what it has read."""
        return self.folder / "loot"

    def run(self, plan: Plan) -> Outcome:
        """Start it until it has reported the problem of its handler; code of the tenant writes into `loot`."""
        (config_map,) = (each for each in plan.applied if each["kind"] == "ConfigMap")
        config = self.folder / "config.json"
        config.write_text(config_map["data"]["config.json"])
        self.secret.write_text(SECRET)
        given = {each["name"]: each.get("value", "x") for each in container_of(plan, labels.COMPONENT_HOST)["env"]}
        own = {
            "PATH": "/usr/bin:/bin",
            "EVENTCONSUMER_CONFIG": str(config),
            "EVENTCONSUMER_PORT": "0",
            "PYTHONPATH": self.code,
        }
        with subprocess.Popen(
            [sys.executable, "-c", self.program], env=own | given, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                return self._outcome(process)
            finally:
                process.terminate()
                process.wait(HANG_SECONDS)

    def _outcome(self, process: "subprocess.Popen[str]") -> Outcome:
        assert process.stderr is not None
        for line in process.stderr:
            if "spec.processing.handler" in line:
                return Gained(self.loot.read_text()) if self.loot.exists() else Refused(f"the host: {line.strip()}")
        raise RuntimeError("the host has ended without a word about its handler")
