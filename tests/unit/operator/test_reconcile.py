"""Whole reconciles over the fake API: convergence, rest, and interruption at every step."""

import asyncio
import contextlib
import random
from datetime import timedelta
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_report import HostState, StorageReport, WatermarkReport
from eventconsumer_operator.errors import Forbidden, OperatorError, Transient
from eventconsumer_operator.fleet.key import FleetKey
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.denials import PATIENCE_SECONDS, RETRY_SECONDS
from eventconsumer_operator.kube.manifest import (
    CONFIG_MAP,
    EVENT,
    EVENT_CONSUMER,
    JOB,
    POD,
    SERVICE,
    STATEFUL_SET,
    name_of,
)
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.pace import MOVING_SECONDS, PLAN_SECONDS, RESTING_SECONDS, STARTING_SECONDS
from eventconsumer_operator.reconcile import CALM_SECONDS, Reconciler
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.support.fakes.virtual import virtual
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, SPARK, SPEC, Told, batch, fleet, load, report


class Cluster:
    """A fake API with the parts of a cluster that follow the operator."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.api = FakeKubernetes()
        self.hosts = FakeHosts()
        self.api.put(event_consumer(KEY.name, spec))
        self.reconciler = self.new_operator()

    def new_operator(self, api: Api | None = None) -> Reconciler:
        fleets = Fleets(api or self.api, self.hosts, FleetKey.load(None))
        return Reconciler(api or self.api, self.api.mirror(), self.hosts, SETTINGS, fleets)

    def follow(self) -> None:
        """What StatefulSet controller and kubelet do until they have nothing left to do."""
        try:
            stateful_set = self.api.peek(STATEFUL_SET, "shop", "orders-host")
        except KeyError:
            return
        replicas = stateful_set["spec"]["replicas"]
        for number in range(replicas):
            self.api.put(
                {
                    "apiVersion": POD.api_version,
                    "kind": POD.name,
                    "metadata": stateful_set["spec"]["template"]["metadata"]
                    | {
                        "name": f"orders-host-{number}",
                        "namespace": "shop",
                        "ownerReferences": [{"uid": stateful_set["metadata"]["uid"], "controller": True}],
                    },
                    "status": {"phase": "Running", "podIP": f"10.0.0.{number}"},
                }
            )
        status = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), replicas),
        }
        self.api.set_status(STATEFUL_SET, "shop", "orders-host", status)

    async def settle(self) -> None:
        for _ in range(4):
            await self.reconciler.reconcile(KEY)
            self.follow()

    def status(self) -> Any:
        return self.api.peek(EVENT_CONSUMER, "shop", "orders").get("status", {})

    def condition(self, kind: str) -> Any:
        return next(each for each in self.status()["conditions"] if each["type"] == kind)

    def ready(self) -> str:
        return next((each["status"] for each in self.status()["conditions"] if each["type"] == "Ready"), "")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(SPEC | SPARK)
    cluster.hosts.answer = report(fleet=fleet())
    return cluster


@virtual
async def test_from_nothing_to_ready_and_then_no_write_at_all() -> None:
    cluster = Cluster(SPEC | SPARK)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    assert cluster.ready() == "True"
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host")["spec"]["replicas"] == 8
    written, read = dict(cluster.api.writes), dict(cluster.api.reads)
    await asyncio.sleep(CALM_SECONDS)
    for _ in range(5):
        result = await cluster.reconciler.reconcile(KEY)
        assert result.delay == RESTING_SECONDS
    assert dict(cluster.api.writes) == written
    assert dict(cluster.api.reads) == read  # and no question: what it needs to know is in the store


async def test_a_pod_that_only_has_the_labels_of_a_host_is_asked_nothing(cluster: Cluster) -> None:
    await cluster.settle()
    stateful_set = cluster.api.peek(STATEFUL_SET, "shop", "orders-host")
    told = stateful_set["spec"]["template"]["metadata"]
    owned = {"ownerReferences": [{"uid": "somebody", "controller": True}]}
    for name, more in {"bare": {}, "of-another": owned}.items():
        metadata = told | {"name": name, "namespace": "shop"} | more
        head = {"apiVersion": POD.api_version, "kind": POD.name, "metadata": metadata}
        cluster.api.put(head | {"status": {"phase": "Running", "podIP": "10.0.9.9"}})
    found = await load(cluster.api.mirror(), cluster.hosts, KEY)
    assert found is not None
    names = {f"orders-host-{number}" for number in range(stateful_set["spec"]["replicas"])}
    assert {name_of(pod) for pod in found.pods} == found.reports.keys() == names


async def test_while_things_move_it_looks_again_soon(cluster: Cluster) -> None:
    assert (await cluster.reconciler.reconcile(KEY)).delay == MOVING_SECONDS


async def test_while_hosts_start_it_looks_again_at_once(cluster: Cluster) -> None:
    cluster.hosts.answer = report(fleet=fleet()).model_copy(update={"state": HostState.STARTING})
    await cluster.settle()
    assert (await cluster.reconciler.reconcile(KEY)).delay == STARTING_SECONDS
    cluster.hosts.answer = report(fleet=fleet())
    assert (await cluster.reconciler.reconcile(KEY)).delay == MOVING_SECONDS


@virtual
async def test_what_is_stuck_is_looked_at_as_rarely_as_what_rests() -> None:
    cluster = Cluster(SPEC)  # no pod ever starts
    for _ in range(20):
        result = await cluster.reconciler.reconcile(KEY)
        assert result.delay is not None
        await asyncio.sleep(result.delay)
    assert result.delay == RESTING_SECONDS
    assert cluster.api.writes["apply_status"] == 2  # the second one says since when pods are missing


@virtual
async def test_files_that_wait_for_a_batch_are_watched_closely() -> None:
    cluster = Cluster(SPEC | SPARK)
    cluster.hosts.answer = report(fleet=fleet().model_copy(update={"pending_files": 3}))
    await cluster.settle()
    await asyncio.sleep(2 * CALM_SECONDS)
    assert (await cluster.reconciler.reconcile(KEY)).delay == MOVING_SECONDS


@virtual
async def test_an_hour_of_rest_is_looks_and_few_plans_and_writes() -> None:
    cluster = Cluster(SPEC | SPARK)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    loop = asyncio.get_running_loop()
    began, plans, looks = loop.time(), 0, 0
    while (passed := loop.time() - began) < 3600:
        # What moves while no event flows.
        moved = fleet().model_copy(update={"watermark": WatermarkReport(files=NOW + timedelta(seconds=passed))})
        storage = StorageReport(requests_per_hour=1000 + passed, idle_requests_per_hour=500)
        silence = {"storage": storage, "hub_silent_seconds": passed * 0.37 % 5}
        cluster.hosts.answer = report(fleet=moved).model_copy(update=silence)
        result = await cluster.reconciler.reconcile(KEY)
        looks, plans = looks + result.looked, plans + (not result.looked)
        assert result.delay is not None
        await asyncio.sleep(result.delay)
    assert cluster.ready() == "True"
    assert looks >= 200
    assert plans <= 30
    assert cluster.api.writes["apply_status"] <= 15


@pytest.mark.parametrize("share", [0.2, 0.8])
@virtual
async def test_the_first_plan_at_rest_is_at_a_random_time(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: share)
    cluster = Cluster(SPEC)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    await asyncio.sleep(CALM_SECONDS)
    assert not (await cluster.reconciler.reconcile(KEY)).looked
    for expected in (share * PLAN_SECONDS, PLAN_SECONDS):
        began = asyncio.get_running_loop().time()
        while (await cluster.reconciler.reconcile(KEY)).looked:
            await asyncio.sleep(1.0)
        assert asyncio.get_running_loop().time() - began == pytest.approx(expected, abs=2.0)


@virtual
async def test_a_change_ends_the_rest_at_the_next_look() -> None:
    cluster = Cluster(SPEC)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    await asyncio.sleep(CALM_SECONDS)
    assert not (await cluster.reconciler.reconcile(KEY)).looked
    assert (await cluster.reconciler.reconcile(KEY)).looked
    cluster.hosts.answer = report(fleet=fleet(files=99))
    assert not (await cluster.reconciler.reconcile(KEY)).looked
    assert cluster.status()["drained"]["files"] == 99
    await asyncio.sleep(CALM_SECONDS)
    await cluster.reconciler.reconcile(KEY)
    cluster.api.remove(STATEFUL_SET, "shop", "orders-host")
    await cluster.reconciler.reconcile(KEY)
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host")


@virtual
async def test_a_look_is_one_request_for_each_host() -> None:
    cluster = Cluster(SPEC)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    await asyncio.sleep(CALM_SECONDS)
    await cluster.reconciler.reconcile(KEY)
    read, told = cluster.hosts.read, len(cluster.hosts.told)
    assert (await cluster.reconciler.reconcile(KEY)).looked
    assert (cluster.hosts.read, len(cluster.hosts.told)) == (read, told + 1)
    # A host reports a change: the plan that follows needs no further request for reports, and tells the new state.
    cluster.hosts.answer = report(fleet=fleet()).model_copy(update={"state": HostState.BLOCKED})
    assert not (await cluster.reconciler.reconcile(KEY)).looked
    assert (cluster.hosts.read, len(cluster.hosts.told)) == (read, told + 3)


async def test_nothing_to_do_for_a_resource_that_is_gone_or_goes(cluster: Cluster) -> None:
    manifest = cluster.api.peek(EVENT_CONSUMER, "shop", "orders")
    manifest["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    cluster.api.put(manifest)
    assert (await cluster.reconciler.reconcile(KEY)).delay is None
    cluster.api.remove(EVENT_CONSUMER, "shop", "orders")
    assert (await cluster.reconciler.reconcile(KEY)).delay is None
    assert not cluster.api.writes


async def test_an_invalid_spec_leaves_running_hosts_alone(cluster: Cluster) -> None:
    await cluster.settle()
    manifest = cluster.api.peek(EVENT_CONSUMER, "shop", "orders")
    manifest["spec"]["sink"]["colour"] = "blue"
    cluster.api.put(manifest)
    before = cluster.api.peek(STATEFUL_SET, "shop", "orders-host")
    await cluster.reconciler.reconcile(KEY)
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host") == before
    stalled = next(each for each in cluster.status()["conditions"] if each["type"] == "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "SpecInvalid")
    assert stalled["message"].startswith("spec.sink.colour: ")


async def test_numbers_alone_are_not_written_all_the_time(cluster: Cluster) -> None:
    await cluster.settle()
    before = cluster.api.writes["apply_status"]
    for lag in range(1, 6):
        cluster.hosts.answer = report(fleet=fleet(files=10 + lag))
        await cluster.reconciler.reconcile(KEY)
    assert cluster.api.writes["apply_status"] == before


@virtual
async def test_numbers_are_written_after_a_while() -> None:
    cluster = Cluster(SPEC)
    cluster.hosts.answer = report(fleet=fleet())
    await cluster.settle()
    await asyncio.sleep(4)
    cluster.hosts.answer = report(fleet=fleet(files=99))
    await cluster.reconciler.reconcile(KEY)
    assert cluster.status()["drained"]["files"] == 99


async def test_a_batch_makes_one_job_and_a_second_operator_makes_no_second(cluster: Cluster) -> None:
    await cluster.settle()
    cluster.hosts.answer = report(fleet=fleet(batch=batch(1)))
    before = cluster.api.writes["create"] - len((await cluster.api.list(EVENT, "shop")).items)
    other = cluster.new_operator()
    for operator in (cluster.reconciler, other, cluster.reconciler):
        await operator.reconcile(KEY)
    assert len((await cluster.api.list(JOB, "shop")).items) == 1
    assert cluster.api.writes["create"] == before + 1 + len((await cluster.api.list(EVENT, "shop")).items)


@virtual
async def test_a_child_that_cannot_be_written_does_not_keep_the_others_from_it() -> None:
    cluster = Cluster(SPEC)
    cluster.api.fail_once("create", Forbidden("no services here"), lambda manifest: _is(manifest, "Service"))
    assert (await cluster.reconciler.reconcile(KEY)).delay == RETRY_SECONDS
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host")
    with pytest.raises(KeyError):
        cluster.api.peek(SERVICE, "shop", "orders-host")
    # The API server denies everything until it has loaded its roles.
    stalled, reconciling = cluster.condition("Stalled"), cluster.condition("Reconciling")
    assert stalled["status"] == "False" and reconciling["message"].startswith("no services here: retrying")
    await asyncio.sleep(PATIENCE_SECONDS - 1)
    cluster.api.fail_once("create", Forbidden("no services here"), lambda manifest: _is(manifest, "Service"))
    await cluster.reconciler.reconcile(KEY)
    assert cluster.condition("Stalled")["status"] == "False"
    await asyncio.sleep(1)
    cluster.api.fail_once("create", Forbidden("no services here"), lambda manifest: _is(manifest, "Service"))
    await cluster.reconciler.reconcile(KEY)
    assert cluster.condition("Stalled")["message"] == "no services here"
    await cluster.reconciler.reconcile(KEY)
    assert cluster.condition("Stalled")["status"] == "False"


@virtual
async def test_a_forbidden_list_is_reported_and_nothing_is_created_blindly() -> None:
    cluster = Cluster(SPEC)
    store = Store()
    operator = Reconciler(cluster.api, store, cluster.hosts, SETTINGS)
    resync = Resync(cluster.api, store, ("shop",), Told(), 100)
    forbidden = Forbidden("cannot list pods")
    store.replace(EVENT_CONSUMER, "shop", await cluster.api.list(EVENT_CONSUMER, "shop"))
    store.refuse(POD, "shop", forbidden)
    await operator.reconcile(KEY)
    await asyncio.sleep(PATIENCE_SECONDS)
    await operator.reconcile(KEY)
    stalled = cluster.condition("Stalled")
    assert (stalled["reason"], stalled["message"]) == ("Forbidden", "cannot list pods")
    assert not (await cluster.api.list(CONFIG_MAP, "shop")).items
    lists = asyncio.create_task(resync.run())
    await asyncio.sleep(0.05)
    lists.cancel()
    await asyncio.gather(lists, return_exceptions=True)
    assert store.refusals("shop") == []
    await operator.reconcile(KEY)
    stalled = next(each for each in cluster.status()["conditions"] if each["type"] == "Stalled")
    assert stalled["status"] == "False"
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host")


async def test_children_of_a_deleted_resource_of_the_same_name_are_waited_for(cluster: Cluster) -> None:
    await cluster.settle()
    orphan = cluster.api.peek(CONFIG_MAP, "shop", "orders-host")
    cluster.api.remove(EVENT_CONSUMER, "shop", "orders")
    cluster.api.put(orphan)  # the garbage collector has not come to it yet
    cluster.api.put(event_consumer("orders", SPEC))
    result = await cluster.reconciler.reconcile(KEY)
    assert result.delay is not None and result.delay <= MOVING_SECONDS
    assert (
        cluster.api.peek(CONFIG_MAP, "shop", "orders-host")["metadata"]["ownerReferences"]
        == (orphan["metadata"]["ownerReferences"])
    )
    cluster.api.remove(CONFIG_MAP, "shop", "orders-host")
    cluster.follow()
    await cluster.settle()
    assert cluster.ready() == "True"


def _is(manifest: Manifest | None, kind: str) -> bool:
    return manifest is not None and manifest["kind"] == kind


class Killed(BaseException):
    """The process ended here."""


class Mortal:
    """The API of an operator that is killed at its n-th call: before it takes effect, or before the answer arrives."""

    def __init__(self, api: FakeKubernetes, at: int, *, after: bool) -> None:
        self._api = api
        self._left = at
        self._after = after

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._api, verb)

        async def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            result = await method(*arguments)
            if self._left == 0:
                raise Killed
            return result

        return call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 16))
async def test_killed_at_any_call_the_next_operator_finishes_the_work(at: int, after: bool) -> None:
    cluster = Cluster(SPEC | SPARK)
    cluster.hosts.answer = report(fleet=fleet(batch=batch(1)))
    await cluster.reconciler.reconcile(KEY)
    cluster.follow()
    mortal = cluster.new_operator(Mortal(cluster.api, at, after=after))
    with contextlib.suppress(Killed):
        await mortal.reconcile(KEY)
    cluster.reconciler = cluster.new_operator()
    await cluster.settle()
    assert cluster.ready() == "True"
    assert len((await cluster.api.list(JOB, "shop")).items) == 1
    assert cluster.api.peek(STATEFUL_SET, "shop", "orders-host")["spec"]["replicas"] == 8


@pytest.mark.parametrize("verb", ["apply_status"])
async def test_an_api_server_that_is_away_is_the_callers_business(cluster: Cluster, verb: str) -> None:
    error: OperatorError = Transient("away")
    cluster.api.fail_once(verb, error)
    with pytest.raises(Transient):
        await cluster.reconciler.reconcile(KEY)
    await cluster.settle()
    assert cluster.ready() == "True"


async def test_a_child_that_fails_for_a_moment_is_tried_again_with_backoff(cluster: Cluster) -> None:
    cluster.api.fail_once("create", Transient("busy"))
    result = await cluster.reconciler.reconcile(KEY)
    assert result.failed
