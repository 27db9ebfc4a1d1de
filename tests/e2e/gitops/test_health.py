"""Argo CD's health script, in Argo CD's Lua, with statuses of the operator."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from eventconsumer_api.v1alpha1 import API_VERSION, KIND
from eventconsumer_api.wire.host_report import HostReport, Problem
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import SpecError, Transient
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from tests.e2e.conftest import ROOT
from tests.e2e.gitops.engine import build, judge
from tests.unit.operator.worlds import NOW, SETTINGS, SPEC, fleet, observed, report, stateful_set

pytestmark = pytest.mark.long

SCALED = SPEC | {"scaling": {"partitionsPerHost": 4}}
SUSPENDED = SCALED | {"suspend": True}
TWO: dict[str, HostReport] = {"orders-host-0": report(fleet=fleet()), "orders-host-1": report()}
LOST = fleet().model_copy(update={"gap_events": 5, "gaps": {"3": "17-20"}})
PROBLEM = Problem(field="spec.sink.container", reason="ContainerInvalid", message="choose another name")


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    """The engine is built."""
    build()
    yield


def live(world: Observed, *errors: Any, seen: bool = True) -> dict[str, Any]:
    """The resource in the API server's form."""
    plan = None if errors else make_plan(world, SETTINGS)
    status = wire(make_status(world, plan, tuple(errors), SETTINGS))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "orders", "namespace": "shop", "generation": 1 if seen else 2},
        "spec": world.consumer.spec,
        "status": status,
    }


CASES = {
    "well": (live(observed(SCALED, hosts=stateful_set(2, 2), reports=TWO)), "Healthy", "8 of 8 partitions"),
    "no status": ({**live(observed(SCALED)), "status": {}}, "Progressing", "not reconciled"),
    "a newer generation": (
        live(observed(SCALED, hosts=stateful_set(2, 2), reports=TWO), seen=False),
        "Progressing",
        "not reconciled",
    ),
    "starting": (live(observed(SCALED, hosts=stateful_set(1, 0))), "Progressing", "0 of 1 hosts are ready"),
    "a host restarts": (
        live(observed(SCALED, hosts=stateful_set(2, 1), reports=TWO)),
        "Progressing",
        "1 of 2 hosts are ready",
    ),
    "stalled": (
        live(
            observed(
                SCALED, hosts=stateful_set(2, 2), reports={"orders-host-0": report(fleet=fleet(), problems=(PROBLEM,))}
            )
        ),
        "Degraded",
        "spec.sink.container",
    ),
    "a wrong spec": (live(observed(SCALED), SpecError("spec.scaling", "no")), "Degraded", "spec.scaling: no"),
    "no API server": (live(observed(SCALED), Transient("later")), "Progressing", "later"),
    "suspending": (
        live(observed(SUSPENDED, hosts=stateful_set(2, 2))),
        "Progressing",
        "2 of 2 hosts are handing over",
    ),
    "suspended": (live(observed(SUSPENDED, hosts=stateful_set(0, 0))), "Suspended", "spec.suspend is true"),
    "events were lost": (
        live(
            observed(
                SCALED,
                hosts=stateful_set(2, 2),
                reports={"orders-host-0": report(fleet=LOST), "orders-host-1": report()},
            )
        ),
        "Healthy",
        "5 events were lost",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_health(case: str) -> None:
    resource, health, message = CASES[case]
    (verdict,) = judge([{"live": resource}])
    assert verdict["health"] == health, verdict
    assert message in verdict["message"]


def test_a_resource_that_is_being_deleted_progresses() -> None:
    resource = live(observed(SCALED, hosts=stateful_set(2, 2), reports=TWO))
    resource["metadata"]["deletionTimestamp"] = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    (verdict,) = judge([{"live": resource}])
    assert verdict["health"] == "Progressing"


def test_the_patch_for_argo_cd_has_the_script() -> None:
    patch = yaml.safe_load((ROOT / "gitops/argocd/argocd-cm.yaml").read_text())
    script = patch["data"]["resource.customizations.health.eventconsumer.io_EventConsumer"]
    assert script == (ROOT / "gitops/argocd/health.lua").read_text()
