"""Rest: what makes a plan necessary again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import PartitionLag, Problem, StorageReport, WatermarkReport
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.errors import OperatorError, Refused, SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.rest import PATIENCE, digest_of_objects, digest_of_reports, is_at_rest
from tests.unit.operator.worlds import (
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    batch,
    fleet,
    job,
    observed,
    pod,
    report,
    spec_with,
    stateful_set,
)

LAG: dict[str, Any] = {"mode": "Lag", "minReplicas": 2, "maxReplicas": 8}


def world(spec: dict[str, Any] = SPEC, **more: Any) -> Observed:
    """Eight hosts that read everything."""
    hosts = [pod(f"orders-host-{number}") for number in range(8)]
    reports = {"orders-host-0": report(fleet=fleet())}
    return observed(spec, hosts=stateful_set(8, 8), **({"pods": tuple(hosts), "reports": reports} | more))


def digest(found: Observed) -> tuple[bytes, bytes]:
    """Digests of all that a plan depends on."""
    return digest_of_objects(found), digest_of_reports(found.reports, found.replay_reports)


def rests(found: Observed, *errors: OperatorError) -> bool:
    """Whether a resource is at rest after a plan that was applied."""
    plan = make_plan(found, SETTINGS)
    return is_at_rest(found, plan, errors, make_status(found, plan, errors, SETTINGS))


def test_what_moves_while_nothing_happens_does_not_change_the_digest() -> None:
    moved = fleet().model_copy(update={"watermark": WatermarkReport(files=NOW)})
    storage = StorageReport(requests_per_hour=1, idle_requests_per_hour=1)
    moving = report(fleet=moved).model_copy(update={"storage": storage, "hub_silent_seconds": 4.2})
    assert digest(world()) == digest(world(reports={"orders-host-0": moving}, now=NOW + timedelta(hours=1)))


@pytest.mark.parametrize(
    "changed",
    [
        world(generation=2),
        world(pods=(pod(),)),
        world(reports={}),
        world(reports={"orders-host-0": report(fleet=fleet(files=4))}),
        world(reports={"orders-host-0": report(fleet=fleet(owned=7))}),
        world(reports={"orders-host-0": report(fleet=fleet(batch=batch()))}),
        world(reports={"orders-host-0": report(fleet=fleet().model_copy(update={"lags": {"0": PartitionLag()}}))}),
        world(reports={"orders-host-0": report(problems=(Problem(field="spec", reason="Fenced", message=""),))}),
    ],
)
def test_anything_else_changes_it(changed: Observed) -> None:
    assert digest(world()) != digest(changed)


def test_a_new_version_of_an_object_changes_it() -> None:
    found = pod()
    newer = found | {"metadata": found["metadata"] | {"resourceVersion": "2"}}
    assert digest(world(pods=(found,))) != digest(world(pods=(newer,)))


def test_a_ready_resource_rests() -> None:
    assert rests(world())
    assert rests(world(SPEC | SPARK))


def test_an_error_of_the_cluster_is_tried_again_and_one_of_the_spec_is_not() -> None:
    assert not rests(world(), Refused("no quota"))
    found = world()
    assert is_at_rest(found, None, (SpecError("spec.sink", "bad"),), EventConsumerStatus())
    assert not is_at_rest(found, None, (), EventConsumerStatus())


def test_a_problem_rests_when_it_is_old() -> None:
    found = world(reports={"orders-host-0": report(fleet=fleet(owned=7))})
    told = make_status(found, make_plan(found, SETTINGS), (), SETTINGS)
    ready = told.condition(ConditionType.READY)
    assert ready and ready.status == "False"
    assert not rests(found)
    later = replace(found, now=NOW + PATIENCE, consumer=replace(found.consumer, status=told))
    assert rests(later)


def test_more_hosts_than_the_least_may_become_fewer() -> None:
    spec = spec_with("scaling", LAG)
    for hosts, expected in ((2, True), (3, False)):
        status = EventConsumerStatus.model_validate(
            {
                "scaling": {
                    "replicas": hosts,
                    "reason": "lag",
                    "mode": "Lag",
                    "lastScaleTime": NOW,
                    "insufficientReplicasTime": None,
                }
            }
        )
        found = observed(
            spec,
            status=status,
            hosts=stateful_set(hosts, hosts),
            pods=tuple(pod(f"orders-host-{number}") for number in range(hosts)),
            reports={"orders-host-0": report(fleet=fleet())},
        )
        assert rests(found) == expected


def test_spark_at_work_does_not_rest() -> None:
    spec = SPEC | SPARK
    assert not rests(world(spec, reports={"orders-host-0": report(fleet=fleet(batch=batch()))}))
    assert not rests(world(spec, applications=(job("one"),)))
    assert rests(world(spec, applications=(job("one", type="Complete"),)))
    assert not rests(world(spec, drivers=(pod("driver", phase="Running"),)))
    assert rests(world(spec, drivers=(pod("driver", phase="Succeeded"),)))
