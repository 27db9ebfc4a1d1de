"""Attempts at batches: whatever happens to applications and operators, each batch is done, one at a time."""

import asyncio
import contextlib
import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.spark import Retry, Spark
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, SparkStatus
from eventconsumer_api.wire.host_report import BatchReport, CommitReport, FleetReport
from eventconsumer_operator.apply import apply
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, JOB
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.writethrough import WriteThrough
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.attempts import Attempts, FailureKind, attempts, backoff
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, SPARK, SPEC, batch, fleet, job, load, observed, pod, report

RETRY = {"attempts": 3, "backoffSeconds": 10, "maxBackoffSeconds": 300}
WITH_SPARK = SPEC | {"spark": SPARK["spark"] | {"retry": RETRY, "history": {"succeeded": 1, "failed": 1}}}


def look(
    *jobs: Manifest,
    memory: SparkStatus | None = None,
    now: datetime = NOW,
    generation: int = 1,
    seen: int = 1,
    leader: FleetReport | None = None,
    pods: tuple[Manifest, ...] = (),
) -> Attempts:
    world = observed(
        WITH_SPARK,
        applications=jobs,
        status=EventConsumerStatus(spark=memory, observed_generation=seen),
        reports={"a": report(fleet=leader or fleet(batch=batch()))},
        generation=generation,
        now=now,
        drivers=pods,
    )
    return attempts(world, Spark.model_validate(WITH_SPARK["spark"]))


def ended(how: str, attempt: int = 1, seconds_ago: float = 0, batch: int = 1) -> Manifest:
    when = (NOW - timedelta(seconds=seconds_ago)).isoformat().replace("+00:00", "Z")
    return job(f"b{batch}a{attempt}", batch, attempt, type=how, lastTransitionTime=when)


def remembered(attempt: int, failures: int = 0, next_time: datetime | None = None) -> SparkStatus:
    return SparkStatus(last_batch=1, attempt=attempt, failures=failures, next_attempt_time=next_time)


def test_the_first_attempt_begins_at_once() -> None:
    assert look().start == 1
    assert look(memory=SparkStatus(last_batch=7, attempt=5, failures=2)).start == 1  # that was another batch


@pytest.mark.parametrize("condition", [{}, {"type": "Suspended"}])
def test_an_attempt_that_has_not_ended_is_waited_for(condition: dict[str, Any]) -> None:
    assert look(job("one", 1, 1, **condition)).start == 0
    assert look(job("old", 7, 1, **condition)).start == 0  # even of another batch


def test_an_attempt_after_a_failed_one_waits_and_waits_longer_each_time() -> None:
    first = look(ended("Failed"))
    assert (first.start, first.failures, first.next_time) == (0, 1, NOW + timedelta(seconds=10))
    second = look(ended("Failed", 2), ended("Failed", 1, 99), memory=remembered(2, 1))
    assert (second.failures, second.next_time) == (2, NOW + timedelta(seconds=20))
    third = look(ended("Failed", 3), memory=remembered(3, 2))
    assert (third.failures, third.next_time) == (3, NOW + timedelta(seconds=300))


def test_a_failure_is_counted_once_and_remembered_when_the_application_is_gone() -> None:
    memory = remembered(1, 1, NOW)
    for found in ((ended("Failed"),), ()):
        before = look(*found, memory=memory, now=NOW - timedelta(seconds=1))
        assert (before.start, before.failures) == (0, 1)
        assert look(*found, memory=memory).start == 2


def test_an_application_deleted_by_hand_is_followed_at_once_and_counts_for_nothing() -> None:
    found = look(memory=remembered(4, 2))
    assert (found.start, found.failures) == (5, 2)


def test_an_operator_that_died_before_it_could_write_what_it_started() -> None:
    """The application itself tells which attempt it is."""
    running = look(job("two", 1, 2), memory=remembered(1, 1, NOW))
    assert (running.start, running.attempt, running.next_time) == (0, 2, None)
    failed = look(ended("Failed", 2), memory=remembered(1, 1, NOW))
    assert (failed.start, failed.failures) == (0, 2)


def test_success_without_a_commit_is_a_failure_after_a_while() -> None:
    assert look(ended("Complete", seconds_ago=60)).failures == 0
    late = look(ended("Complete", seconds_ago=125))
    assert (late.failures, late.start, late.next_time) == (1, 0, NOW + timedelta(seconds=5))
    assert late.failure is not None and late.failure.cause is FailureKind.NO_COMMIT
    assert look(ended("Complete", seconds_ago=200)).start == 2


def test_a_changed_spec_may_be_the_remedy_and_is_tried_at_once() -> None:
    memory = remembered(3, 3, NOW + timedelta(hours=1))
    assert look(memory=memory).start == 0
    assert look(memory=memory, generation=2).start == 4
    assert look(memory=memory, generation=2, seen=0).start == 0  # the status is lost, and nothing is known of the spec


def test_while_nobody_tells_which_batch_is_open_nothing_is_decided() -> None:
    world = observed(WITH_SPARK, applications=(ended("Failed"),), reports={"a": report()})
    found = attempts(world, Spark.model_validate(WITH_SPARK["spark"]))
    assert (found.start, found.batch, found.given_up) == (0, 0, ())


def created(seconds_ago: float, **condition: Any) -> Manifest:
    manifest = job("b1a1", 1, 1, **condition)
    manifest["metadata"]["creationTimestamp"] = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return manifest


def driver(reason: str) -> Manifest:
    waiting = {"state": {"waiting": {"reason": reason, "message": "x"}}}
    made = pod("b1a1-x", phase="Pending", containerStatuses=[waiting])
    made["metadata"] |= {"uid": "p", "ownerReferences": [{"uid": "uid-of-b1a1", "controller": True}]}
    return made


def test_an_application_whose_image_is_missing_is_given_up_after_a_while() -> None:
    assert look(created(60), pods=(driver("ErrImagePull"),)).given_up == ()
    found = look(created(121), pods=(driver("ErrImagePull"),))
    assert [each.name for each in found.given_up] == ["b1a1"]
    assert (found.failures, found.start, found.next_time) == (1, 0, NOW + timedelta(seconds=10))
    assert found.failure is not None and found.failure.cause is FailureKind.CANNOT_START
    assert look(created(121), pods=(driver("ContainerCreating"),)).given_up == ()


def test_what_cannot_start_makes_way_for_a_changed_spec() -> None:
    found = look(created(61), pods=(driver("ErrImagePull"),), generation=2)
    assert [each.name for each in found.given_up] == ["b1a1"]
    assert found.failures == 0  # so the next follows at once
    refused = look(created(61), generation=2)  # no pod at all: a quota
    assert [each.name for each in refused.given_up] == ["b1a1"]
    assert look(created(60), pods=(driver("ContainerCreating"),), generation=2).given_up == ()


# --- what a dead node or a sidecar never says ------------------------------------------------------------------------


def driver_pod(deleted: float | None = None, code: int | None = None) -> Manifest:
    """A driver's pod with a sidecar; its grace period was over `deleted` seconds ago; its driver ended by `code`."""
    over = {"terminated": {"exitCode": code, "finishedAt": NOW.isoformat(), "message": "out of luck"}}
    state = {"running": {}} if code is None else over
    containers = [{"name": "istio-proxy", "state": {"running": {}}}, {"name": "driver", "state": state}]
    made = pod("b1a1-x", phase="Running", containerStatuses=containers)
    made["metadata"] |= {"uid": "p", "ownerReferences": [{"uid": "uid-of-b1a1", "controller": True}]}
    made["spec"] = {"nodeName": "node-7"}
    if deleted is not None:
        made["metadata"]["deletionTimestamp"] = (NOW - timedelta(seconds=deleted)).isoformat()
    return made


def test_a_job_ends_with_its_target_and_not_only_when_its_pods_have_ended() -> None:
    found = look(ended("FailureTarget"))
    assert (found.failures, found.start, found.next_time) == (1, 0, NOW + timedelta(seconds=10))
    assert look(ended("SuccessCriteriaMet", seconds_ago=125)).failures == 1  # as Complete, without a commit


def test_a_driver_that_is_deleted_and_does_not_end_is_given_up() -> None:
    for deleted, sure in ((None, False), (-30, False), (59, False), (60, True)):
        found = look(created(500), pods=(driver_pod(deleted),))
        assert bool(found.failures) == sure
        assert [each.name for each in found.given_up] == (["b1a1"] if sure else [])
        assert found.next_time == (NOW + timedelta(seconds=10) if sure else None)
    assert found.failure is not None and found.failure.cause is FailureKind.LOST


def test_the_deadline_ends_an_attempt_whose_job_says_nothing() -> None:
    limit = Spark.model_validate(WITH_SPARK["spark"]).timeout_seconds + 60
    assert look(created(limit)).given_up == ()
    found = look(created(limit + 1))
    assert [each.name for each in found.given_up] == ["b1a1"]
    assert found.failure is not None and found.failure.cause is FailureKind.TOO_LONG


def test_the_end_of_the_container_of_the_driver_ends_the_attempt() -> None:
    failed = look(created(500), pods=(driver_pod(code=1),))
    assert (failed.failures, failed.live, failed.given_up) == (1, (), ())
    # The next batch has its driver at once.
    done = look(created(500), pods=(driver_pod(code=0),), leader=committed(1, seconds_ago=1, open_batch=batch(2)))
    assert (done.batch, done.start, done.live) == (2, 1, ())
    # The pod continues until it is left over.
    late = look(created(4000), pods=(driver_pod(code=0),), leader=committed(1, seconds_ago=660))
    assert [each.name for each in late.given_up] == ["b1a1"]


def committed(number: int, *, seconds_ago: float, open_batch: BatchReport | None = None) -> FleetReport:
    commit = CommitReport(
        number=number,
        committed_at=NOW - timedelta(seconds=seconds_ago),
        application=f"b{number}a1",
        rows_read=1,
        rows_written=1,
        seconds=1,
    )
    return fleet(committed=number, batch=open_batch).model_copy(update={"last_commit": commit})


def test_an_attempt_long_after_the_commit_of_its_batch_is_ended() -> None:
    def after(minutes: int) -> Attempts:
        return look(created(4000), leader=committed(1, seconds_ago=60 * minutes))

    assert after(9).given_up == ()
    assert [each.name for each in after(11).given_up] == ["b1a1"]


# --- resident drivers ----------------------------------------------------------------------------------------------

RESIDENT = WITH_SPARK | {"spark": WITH_SPARK["spark"] | {"idleTimeoutSeconds": 600, "timeoutSeconds": 1000}}


def resident(batch: int = 6, seconds_ago: float = 4000, **condition: Any) -> Manifest:
    manifest = job(f"b{batch}a1", batch, 1, **condition)
    manifest["metadata"]["creationTimestamp"] = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    manifest["metadata"]["annotations"] = {"eventconsumer.io/resident": "d"}
    return manifest


def at_seven(
    *jobs: Manifest,
    memory: SparkStatus | None = None,
    frozen: float = 100,
    since_commit: float = 50,
    is_open: bool = True,
) -> Attempts:
    """Batch 7 is open, or the next one to be frozen; times in seconds ago."""
    open_batch = batch(7).model_copy(update={"created_at": NOW - timedelta(seconds=frozen)}) if is_open else None
    leader = committed(6, seconds_ago=since_commit, open_batch=open_batch)
    world = observed(
        RESIDENT,
        applications=jobs,
        status=EventConsumerStatus(spark=memory, observed_generation=1),
        reports={"a": report(fleet=leader)},
    )
    return attempts(world, Spark.model_validate(RESIDENT["spark"]))


def by_resident(failures: int = 0, next_time: datetime | None = None) -> SparkStatus:
    memory = {"last_batch": 7, "attempt": 1, "last_application": "b6a1"}
    return SparkStatus.model_validate(memory | {"failures": failures, "next_attempt_time": next_time})


def test_a_resident_driver_makes_the_first_attempt_at_a_later_batch() -> None:
    found = at_seven(resident())
    assert (found.attempt, found.start, found.failures) == (1, 0, 0)
    assert found.newest is not None and found.newest.name == "b6a1"


def test_a_failure_of_a_resident_driver_is_a_failure_of_the_batch_that_it_processed() -> None:
    failed = {"type": "Failed", "lastTransitionTime": NOW.isoformat()}
    found = at_seven(resident(**failed), memory=by_resident())
    assert (found.failures, found.start, found.next_time) == (1, 0, NOW + timedelta(seconds=10))
    counted = at_seven(resident(**failed), memory=by_resident(1, NOW))
    assert (counted.failures, counted.start) == (1, 2)
    # It was not alive while the batch was open: the batch has no attempt yet.
    assert at_seven(resident(**failed)).start == 1


def test_after_a_resident_driver_without_work_or_a_deleted_one_the_next_attempt_starts_at_once() -> None:
    succeeded = {"type": "Complete", "lastTransitionTime": NOW.isoformat()}
    for found in ((resident(**succeeded),), ()):
        state = at_seven(*found, memory=by_resident())
        assert (state.start, state.failures, state.newest) == (2, 0, None)


def test_the_time_limit_of_a_resident_driver_begins_with_each_batch() -> None:
    limit = 1000 + 60
    assert at_seven(resident(), frozen=limit).given_up == ()
    late = at_seven(resident(), frozen=limit + 10, since_commit=limit + 1)
    assert [each.name for each in late.given_up] == ["b6a1"]
    assert late.failure is not None and late.failure.cause is FailureKind.TOO_LONG
    assert at_seven(resident(), frozen=limit + 10, since_commit=limit).given_up == ()
    assert at_seven(resident(seconds_ago=limit), frozen=limit + 10, since_commit=limit + 10).given_up == ()
    # The batch for which it was started, too: the Job's deadline is that of all batches.
    assert [each.name for each in at_seven(resident(7)).given_up] == ["b7a1"]


def test_a_resident_driver_that_does_not_end_after_its_idle_time_is_deleted() -> None:
    assert at_seven(resident(), is_open=False, since_commit=1200).given_up == ()
    assert [each.name for each in at_seven(resident(), is_open=False, since_commit=1201).given_up] == ["b6a1"]
    assert at_seven(resident(), frozen=0, since_commit=5000).given_up == ()  # a batch for it


@given(
    retry=st.builds(
        Retry,
        attempts=st.integers(1, 100),
        backoff_seconds=st.integers(0, 86400),
        max_backoff_seconds=st.integers(1, 86400),
    ),
    failures=st.integers(1, 10_000),
)
def test_the_time_between_attempts_never_falls_and_has_a_limit(retry: Retry, failures: int) -> None:
    longest = timedelta(seconds=retry.max_backoff_seconds)
    assert backoff(retry, failures) <= backoff(retry, failures + 1) <= longest
    if failures >= retry.attempts:
        assert backoff(retry, failures) == longest


# --- the whole of it -----------------------------------------------------------------------------------------------


class BatchesGetDone(RuleBasedStateMachine):
    """Two operators with views of different age, applications that end in all ways, and people who delete them."""

    spec = WITH_SPARK
    in_flight = 1

    def __init__(self) -> None:
        super().__init__()
        self.api = FakeKubernetes()
        self.now = NOW
        self.stores: list[Store] = []
        self.open = 1
        self.told = self._fleet()
        self.began: dict[str, datetime] = {}
        self.recorded: set[tuple[int, int]] = set()
        self.decided: set[int] = set()  # batches whose attempt has committed
        self.failed_at: dict[int, datetime] = {}  # newest attempt by batch, as long as nobody made that invisible
        self.api.watchers.append(self._watched)

    @initialize()
    def begin(self) -> None:
        self.api.put(event_consumer(KEY.name, self.spec))
        self.stores = [self._view(), self._view()]

    # --- the world -------------------------------------------------------------------------------------------------

    def _view(self) -> Store:
        store = Store()
        self._refresh(store)
        return store

    def _refresh(self, store: Store) -> None:
        for kind in store.kinds:
            store.replace(kind, "shop", asyncio.run(self.api.list(kind, "shop")))

    def _fleet(self) -> FleetReport:
        numbers = range(self.open, self.open + self.in_flight)
        frozen = [BatchReport(number=number, files=1, bytes=1, events=1, reason="Age") for number in numbers]
        return fleet(committed=self.open - 1).model_copy(update={"open_batches": frozen})

    def _jobs(self) -> list[Manifest]:
        return list(asyncio.run(self.api.list(JOB, "shop")).items)

    def _live(self) -> list[Manifest]:
        return [each for each in self._jobs() if not each.get("status", {}).get("conditions")]

    def _watched(self, event: str, manifest: Manifest) -> None:
        if manifest["kind"] == "EventConsumer":
            spark = manifest.get("status", {}).get("spark")
            if spark and spark.get("attempt"):
                self.recorded.add((spark["lastBatch"], spark["attempt"]))
            for later in (spark or {}).get("laterBatches", []):
                self.recorded.add((later["batch"], later["attempt"]))
        if manifest["kind"] != "Job" or event != "ADDED":
            return
        told = manifest["metadata"]["labels"]
        number = int(told["eventconsumer.io/batch"]), int(told["eventconsumer.io/attempt"])
        assert number not in self.recorded, "an attempt's number was given twice"
        if (failed_at := self.failed_at.pop(number[0], None)) and not self._is_edited():
            assert self.now >= failed_at + timedelta(seconds=RETRY["backoffSeconds"]), "too early"

    def _is_edited(self) -> bool:
        """Whether no operator has recorded the last edit yet: it may be the remedy, so there is no backoff."""
        resource = self.api.peek(EVENT_CONSUMER, "shop", KEY.name)
        return bool(resource.get("status", {}).get("observedGeneration") != resource["metadata"]["generation"])

    def _end(self, manifest: Manifest, how: str) -> None:
        when = self.now.isoformat().replace("+00:00", "Z")
        condition = {"type": how, "status": "True", "lastTransitionTime": when}
        self.api.set_status(JOB, "shop", manifest["metadata"]["name"], {"conditions": [condition]})

    async def _reconcile(self, store: Store, crash: str) -> None:
        api = WriteThrough(self.api, store)
        found = await load(store, FakeHosts(), KEY)
        assert found is not None
        seen: Observed = dataclasses.replace(found, now=self.now, reports={"a": report(fleet=self.told)})
        plan = make_plan(seen, SETTINGS)
        if crash == "before":
            return
        outcome = await apply(api, seen, plan)
        if crash == "between":
            return
        status = make_status(seen, plan, outcome.errors, SETTINGS, started=outcome.started)
        metadata = {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": seen.consumer.resource_version}
        head = {"apiVersion": EVENT_CONSUMER.api_version, "kind": EVENT_CONSUMER.name}
        await api.apply_status(head | {"metadata": metadata, "status": wire(status)})

    def _recorded_application(self) -> tuple[int, str]:
        spark = self.api.peek(EVENT_CONSUMER, "shop", KEY.name).get("status", {}).get("spark", {})
        return spark.get("lastBatch", 0), spark.get("lastApplication", "")

    # --- what happens ----------------------------------------------------------------------------------------------

    @rule(which=st.integers(0, 1), crash=st.sampled_from(["", "", "", "before", "between"]))
    def an_operator_reconciles(self, which: int, crash: str) -> None:
        with contextlib.suppress(OperatorError):  # its view was old
            asyncio.run(self._reconcile(self.stores[which], crash))

    @rule(which=st.integers(0, 1))
    def an_operator_hears_the_news(self, which: int) -> None:
        self._refresh(self.stores[which])

    @rule(seconds=st.sampled_from([1, 5, 9, 10, 30, 130, 400]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def _batch_of(self, manifest: Manifest) -> int:
        """Number of the open batch on which an application works; 0: none."""
        number = int(manifest["metadata"]["labels"]["eventconsumer.io/batch"])
        is_resident = "eventconsumer.io/resident" in manifest["metadata"].get("annotations", {})
        return number if number >= self.open else self.open if is_resident else 0

    def _commit(self, number: int) -> None:
        self.decided.add(number)
        while self.open in self.decided:  # commits are published in order
            self.open += 1

    @precondition(lambda self: self._live())
    @rule(which=st.integers(0, 3), commits=st.booleans())
    def an_application_succeeds(self, which: int, commits: bool) -> None:
        manifest = self._live()[which % len(self._live())]
        if commits and (number := self._batch_of(manifest)):
            self._commit(number)
        self._end(manifest, "Complete")

    @precondition(lambda self: self._live())
    @rule(which=st.integers(0, 3))
    def an_application_fails(self, which: int) -> None:
        manifest = self._live()[which % len(self._live())]
        self._end(manifest, "Failed")
        number = int(manifest["metadata"]["labels"]["eventconsumer.io/batch"])
        # A resident driver that no operator saw alive with the open batch has not failed to process it.
        if self._recorded_application() == (self.open, manifest["metadata"]["name"]):
            number = self.open
        if number >= self.open:
            self.failed_at[number] = self.now

    @precondition(lambda self: self._jobs())
    @rule(which=st.integers(0, 10))
    def somebody_deletes_an_application(self, which: int) -> None:
        jobs = self._jobs()
        self.api.remove(JOB, "shop", jobs[which % len(jobs)]["metadata"]["name"])
        self.failed_at = {}  # if it was not seen failing, it looks as if it had been deleted while it ran

    @rule()
    def the_leader_looks(self) -> None:
        self.failed_at = {number: time for number, time in self.failed_at.items() if number >= self.open}
        self.told = self._fleet()

    # --- what holds ------------------------------------------------------------------------------------------------

    @invariant()
    def one_application_of_a_batch_lives_at_a_time(self) -> None:
        batches = [each["metadata"]["labels"]["eventconsumer.io/batch"] for each in self._live()]
        assert len(batches) == len(set(batches)) <= self.in_flight

    def teardown(self) -> None:
        """Nothing more goes wrong: then the open batch is committed soon, and the history is short."""
        if not self.stores:
            return
        goal = self.open + self.in_flight
        for _ in range(80):
            for store in self.stores:
                self._refresh(store)
                asyncio.run(self._heal(store))
            self.the_leader_looks()
            if self.open >= goal:
                break
            for _ in self._live():
                self.an_application_succeeds(which=0, commits=True)
            self.now += timedelta(seconds=15)
        assert self.open >= goal
        for store in self.stores * 2:
            self._refresh(store)
            asyncio.run(self._heal(store))
        assert len([each for each in self._jobs() if each.get("status", {}).get("conditions")]) <= 3

    async def _heal(self, store: Store) -> None:
        with contextlib.suppress(OperatorError):
            await self._reconcile(store, "")


class ResidentsGetBatchesDone(BatchesGetDone):
    """The same with resident drivers, which commit and stay, and users who change their settings."""

    spec = RESIDENT

    @precondition(lambda self: self._live() and self._batch_of(self._live()[0]))
    @rule()
    def an_application_commits_and_stays(self) -> None:
        self._commit(self._batch_of(self._live()[0]))

    @rule(seconds=st.sampled_from([0, 600, 601]), suspend=st.sampled_from([False, False, True]))
    def a_user_edits_the_resource(self, seconds: int, suspend: bool) -> None:
        self.spec = RESIDENT | {"spark": RESIDENT["spark"] | {"idleTimeoutSeconds": seconds}, "suspend": suspend}
        self._edit()

    def _edit(self) -> None:
        self.api.put(event_consumer(KEY.name, self.spec))
        self.failed_at = {}  # the edit may be the remedy: the next attempt starts at once

    def teardown(self) -> None:
        """Once the operators have seen the last edit, no resident driver of another spec waits for batches."""
        if not self.stores:
            return
        self.spec = self.spec | {"suspend": False}
        self._edit()
        self.the_leader_looks()
        for store in self.stores:
            self._refresh(store)
            asyncio.run(self._heal(store))
        wanted = asyncio.run(self._wanted(self.stores[0]))
        for each in self._live():
            digest = each["metadata"].get("annotations", {}).get("eventconsumer.io/resident", "")
            assert digest in {"", wanted} or each["metadata"]["labels"]["eventconsumer.io/batch"] == str(self.open)
        super().teardown()

    async def _wanted(self, store: Store) -> str:
        """The digest of the application that an operator would start for a batch after the open one."""
        found = await load(store, FakeHosts(), KEY)
        assert found is not None
        told = self.told.model_copy(update={"committed_batch": 98, "open_batches": [batch(99)]})
        plan = make_plan(dataclasses.replace(found, reports={"a": report(fleet=told)}, applications=()), SETTINGS)
        assert plan.spark.started is not None
        digest: str = plan.spark.started["metadata"].get("annotations", {}).get("eventconsumer.io/resident", "")
        return digest


_SETTINGS = settings(
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # making a failing run shorter takes minutes
)


class ParallelBatchesGetDone(BatchesGetDone):
    """The same with several batches at a time, which are committed in any order."""

    in_flight = 3
    spec = WITH_SPARK | {"spark": WITH_SPARK["spark"] | {"batch": {"inFlight": 3}}}


TestParallelBatchesGetDone = pytest.mark.slow(ParallelBatchesGetDone.TestCase)
TestParallelBatchesGetDone.settings = _SETTINGS
TestBatchesGetDone = pytest.mark.slow(BatchesGetDone.TestCase)
TestBatchesGetDone.settings = _SETTINGS
TestResidentsGetBatchesDone = pytest.mark.slow(ResidentsGetBatchesDone.TestCase)
TestResidentsGetBatchesDone.settings = _SETTINGS
