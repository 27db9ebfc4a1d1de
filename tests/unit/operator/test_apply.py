"""Applying a plan: what is written, what is left alone, and the text that says why."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.apply import Outcome, apply
from eventconsumer_operator.errors import Changed, Contested, NameTaken
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.contests import Contests
from eventconsumer_operator.kube.manifest import CONFIG_MAP, JOB, SERVICE, STATEFUL_SET, difference
from eventconsumer_operator.kube.ownership import ANNOTATION_APPLIED
from eventconsumer_operator.plan import make_plan
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, SPARK, SPEC, batch, fleet, load, report, spec_with


async def once(api: FakeKubernetes, key: Key = KEY) -> Outcome:
    observed = await load(api.mirror(), FakeHosts(), key)
    assert observed is not None
    return await apply(api, observed, make_plan(observed, SETTINGS))


@pytest.fixture
def api() -> FakeKubernetes:
    api = FakeKubernetes()
    api.put(event_consumer("orders", SPEC))
    return api


async def test_what_is_as_wanted_is_not_written_again(api: FakeKubernetes) -> None:
    first = await once(api)
    assert first.changes == (
        "poddisruptionbudget/orders-host created",
        "configmap/orders-host created",
        "service/orders-host created",
        "statefulset/orders-host created",
    )
    assert (await once(api)).changes == ()
    assert dict(api.writes) == {"create": 4, "merge": 4}


async def test_a_correction_says_what_was_wrong(api: FakeKubernetes) -> None:
    await once(api)
    changed = api.peek(STATEFUL_SET, "shop", "orders-host")
    changed["spec"]["replicas"] = 5
    api.put(changed)
    assert (await once(api)).changes == ("statefulset/orders-host corrected: spec.replicas is 5, not 1",)


@pytest.mark.slow
async def test_an_object_that_another_client_changes_back_is_corrected_later_and_later(api: FakeKubernetes) -> None:
    """Two operators of different settings: each sees its own manifest undone."""
    now = 0.0
    contests = Contests(lambda: now)

    async def act() -> Outcome:
        observed = await load(api.mirror(), FakeHosts(), KEY)
        assert observed is not None
        return await apply(api, observed, make_plan(observed, SETTINGS), contests)

    await act()
    corrections, errors = [], []
    for now in range(0, 200, 3):  # noqa: B007 - the clock
        theirs = api.peek(STATEFUL_SET, "shop", "orders-host")
        theirs["spec"]["replicas"] = 5
        api.put(theirs)
        outcome = await act()
        corrections += [now] if outcome.changes else []
        errors.append(outcome.errors)
    assert corrections == [0, 3, 6, 18, 39, 81, 162]  # the creation counts, too
    assert not any(errors[:2]) and all(errors[2:])
    (error,) = errors[-1]
    assert isinstance(error, Contested)
    assert "statefulset/orders-host was corrected 8 times" in str(error)
    assert "changes it back (spec.replicas is 5, not 1)" in str(error)
    # A changed spec is applied at once, and when the other client has stopped, the next change by hand.
    api.put(event_consumer("orders", SPEC | {"scaling": {"mode": "Fixed", "replicas": 2}}))
    assert (await act()).changes
    now += 200
    theirs = api.peek(STATEFUL_SET, "shop", "orders-host")
    theirs["spec"]["replicas"] = 5
    api.put(theirs)
    outcome = await act()
    assert outcome.changes and not outcome.errors


async def test_a_long_text_is_compared_without_being_held(api: FakeKubernetes) -> None:
    await once(api)
    changed = api.peek(CONFIG_MAP, "shop", "orders-host")
    assert len(changed["data"]["config.json"]) > 256
    assert (await once(api)).changes == ()
    changed["data"]["config.json"] += " "
    api.put(changed)
    assert (await once(api)).changes == ("configmap/orders-host corrected: data.config.json has another text",)
    assert (await once(api)).changes == ()


async def test_a_field_that_is_no_longer_wanted_goes(api: FakeKubernetes) -> None:
    api.put(event_consumer("orders", spec_with("pods.resources", {"limits": {"memory": "1Gi", "cpu": "1"}})))
    await once(api)
    api.put(event_consumer("orders", spec_with("pods.resources", {"requests": {"memory": "1Gi", "cpu": "1"}})))
    outcome = await once(api)
    assert outcome.changes == ("statefulset/orders-host corrected: the operator no longer sets some fields",)
    container = api.peek(STATEFUL_SET, "shop", "orders-host")["spec"]["template"]["spec"]["containers"][0]
    assert "cpu" not in container["resources"]["limits"]


async def test_what_others_add_stays(api: FakeKubernetes) -> None:
    await once(api)
    changed = api.peek(SERVICE, "shop", "orders-host")
    changed["metadata"]["annotations"]["theirs"] = "x"
    changed["spec"]["sessionAffinity"] = "None"
    api.put(changed)
    assert (await once(api)).changes == ()


async def test_an_object_of_somebody_else_is_not_touched(api: FakeKubernetes) -> None:
    mine: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "orders-host", "namespace": "shop"},
        "data": {},
    }
    api.put(mine)
    outcome = await once(api)
    (error,) = outcome.errors
    assert isinstance(error, NameTaken)
    assert "configmap/orders-host exists and does not belong to this EventConsumer: rename or delete it" in str(error)
    assert api.peek(CONFIG_MAP, "shop", "orders-host")["data"] == {}
    assert ANNOTATION_APPLIED not in api.peek(CONFIG_MAP, "shop", "orders-host")["metadata"].get("annotations", {})


async def test_an_object_that_is_created_at_the_same_time_is_not_taken_over(api: FakeKubernetes) -> None:
    theirs: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "orders-host", "namespace": "shop"},
        "data": {},
    }

    class Late(FakeKubernetes):
        """The other client is faster than the operator."""

        async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
            found = await super().get(kind, namespace, name)
            if kind == CONFIG_MAP and found is None:
                self.put(theirs)
            return found

    late = Late()
    late.put(event_consumer("orders", SPEC))
    (error,) = (await once(late)).errors
    assert isinstance(error, Changed)
    assert late.peek(CONFIG_MAP, "shop", "orders-host")["data"] == {}
    (error,) = (await once(late)).errors
    assert isinstance(error, NameTaken)


async def test_fields_of_a_creation_are_handed_over_later_if_the_object_had_changed(api: FakeKubernetes) -> None:
    api.put(event_consumer("orders", spec_with("pods.resources", {"limits": {"memory": "1Gi", "cpu": "1"}})))
    api.fail_once("merge", Changed("its controller was faster"))
    first = await once(api)
    assert len(first.changes) == 4 and not first.errors
    api.put(event_consumer("orders", spec_with("pods.resources", {"requests": {"memory": "1Gi", "cpu": "1"}})))
    assert not (await once(api)).errors
    assert dict(api.writes) == {"create": 4, "merge": 4, "apply": 1}


async def test_a_driver_whose_sidecar_stays_does_not_hold_up_the_next_batch(api: FakeKubernetes) -> None:
    api.put(event_consumer("orders", SPEC | SPARK))
    await once(api)

    async def at_batch(number: int) -> Outcome:
        observed = await load(api.mirror(), FakeHosts(), KEY)
        assert observed is not None
        reports = {"orders-host-0": report(fleet=fleet(committed=number - 1, batch=batch(number)))}
        observed = dataclasses.replace(observed, reports=reports)
        return await apply(api, observed, make_plan(observed, SETTINGS))

    assert (await at_batch(1)).started
    assert not (await at_batch(2)).started
    (job,) = (await api.list(JOB, "shop")).items
    over = {"name": "driver", "state": {"terminated": {"exitCode": 0, "finishedAt": NOW.isoformat()}}}
    owners = [{"uid": job["metadata"]["uid"], "controller": True}]
    metadata = {"name": "x", "namespace": "shop", "labels": job["metadata"]["labels"], "ownerReferences": owners}
    status = {"phase": "Running", "containerStatuses": [over, {"name": "istio-proxy", "state": {"running": {}}}]}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    assert (await at_batch(2)).started


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
OBJECT = st.dictionaries(st.text(min_size=1, max_size=3), JSON, max_size=4)


@given(OBJECT)
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert difference(value, value) is None


@given(OBJECT, OBJECT)
def test_what_only_the_live_object_has_is_ignored(desired: dict[str, Any], extra: dict[str, Any]) -> None:
    assert difference(desired, extra | desired) is None


@pytest.mark.parametrize(
    ("desired", "live", "text"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b is 2, not 1"),
        ({"a": {"b": 1}}, {"a": {}}, "a.b is missing"),
        ({"a": [1, 2]}, {"a": [1]}, "a has 1 entries, not 2"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, None),
        ({"a": [{"b": 1}]}, {"a": [{"b": 3}]}, "a[0].b is 3, not 1"),
        ({"a": {}}, {}, None),
        ({"a": False}, {}, "a is missing"),
    ],
)
def test_the_first_difference_as_text(desired: Any, live: Any, text: str | None) -> None:
    assert difference(desired, live) == text
