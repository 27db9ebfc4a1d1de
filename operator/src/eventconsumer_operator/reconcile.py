"""Reconciles one key: load -> plan -> apply -> status; at rest only: load.

Level-triggered: every step starts from the observed state, so it can be interrupted anywhere and repeated at any time.
Errors of single children are reported in the status; only errors of reading or writing the resource itself are raised.
"""

import asyncio
import random
from dataclasses import dataclass, replace

import structlog

from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import HostState
from eventconsumer_operator import metrics
from eventconsumer_operator.apply import Outcome, apply
from eventconsumer_operator.conditions.events import Recorder
from eventconsumer_operator.conditions.status import make_status, same_but_moving, same_but_numbers, wire
from eventconsumer_operator.errors import DependencyNotReady, Gone, OperatorError, SpecError, Transient
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.contests import Contests
from eventconsumer_operator.kube.denials import Denials
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.writethrough import WriteThrough
from eventconsumer_operator.pace import (
    moving_seconds,
    numbers_seconds,
    planning_seconds,
    resting_seconds,
    starting_seconds,
)
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.hosts import Hosts
from eventconsumer_operator.resource.load import objects_of, with_reports
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import ordinals
from eventconsumer_operator.resource.refusals import Refusals
from eventconsumer_operator.rest import Rest, digest_of_objects, digest_of_reports, is_at_rest
from eventconsumer_operator.settings import Settings

_log = structlog.get_logger(__name__)

CALM_SECONDS = 30.0  # a resource whose status did not change for this long is at rest, ready or stuck


@dataclass(frozen=True)
class Next:
    """When to reconcile again.

    Attributes:
        delay: Seconds; None: only when the key is added again.
        failed: Whether to retry with backoff.
        looked: Whether it was only looked at: its inputs are the same as at the last plan.
    """

    delay: float | None
    failed: bool = False
    looked: bool = False


@dataclass(frozen=True)
class _Memory:
    """Memory of one resource between reconciles.

    Attributes:
        written: When its status was last written, event loop's clock.
        changed: When its status last differed from the one before, except in what always moves; event loop's clock.
        rest: The last plan; None: it is not at rest.
    """

    written: float = float("-inf")
    changed: float = float("-inf")
    rest: Rest | None = None


class Reconciler:
    """Reconciles keys: several keys at a time, each key once at a time."""

    def __init__(
        self,
        api: Api,
        store: Store,
        hosts: Hosts,
        settings: Settings,
        fleets: Fleets | None = None,
        *,
        histories: Histories | None = None,
    ) -> None:
        """Read `store` and `hosts`, write with `api`, send messages with `fleets`, and fill the page's `histories`."""
        self._api = WriteThrough(api, store)
        self._store = store
        self._hosts = hosts
        self._settings = settings
        self._fleets = fleets
        self._histories = histories
        self._recorder = Recorder(self._api)
        # Lost in a restart, which costs some reads and at most one write.
        self._memory: dict[Key, _Memory] = {}
        self._moving = 0  # resources that are not at rest
        self._denials = Denials()
        self._refusals = Refusals(self._api)
        self._contests = Contests()

    async def reconcile(self, key: Key) -> Next:
        """Reconcile one resource.

        Raises:
            Forbidden, Transient: The status could not be written.
        """
        refusals = self._store.refusals(key.namespace)
        if not self._store.synced(key.namespace) and not refusals:
            return Next(None)  # the first list calls again
        objects = objects_of(self._store, key)
        if objects is None:
            self._remember(key, None)
            self._denials.forget(key)
            self._contests.forget(key)
            self._recorder.forget(key)
            if self._fleets:
                self._fleets.forget(key)
            if self._histories is not None:
                self._histories.forget(key)
            metrics.RESOURCES.forget(key)
            return Next(None)
        memory = self._memory.get(key, _Memory())
        seen = digest_of_objects(objects)
        rest = memory.rest if not refusals and _holds(memory.rest, seen) else None
        told = await self._fleets.repeat(objects) if rest and self._fleets else {}
        observed = await with_reports(objects, self._hosts, told)
        said = digest_of_reports(observed.reports, observed.replay_reports)
        if rest and rest.reports == said:
            if self._histories is not None:
                self._histories.record(observed, observed.consumer.status)
            return replace(self._next((), observed.consumer.status, calm=True, starting=False), looked=True)
        observed = replace(observed, refusals=await self._refusals.of(observed, asyncio.get_running_loop().time()))
        plan, outcome = await self._plan_and_apply(observed)
        now = asyncio.get_running_loop().time()
        errors = self._denials.weighed(key, (*outcome.errors, *refusals), now)
        hosts = _wanted_hosts(observed, plan)
        await self._send(observed, hosts)
        status = make_status(observed, plan, errors, self._settings, started=outcome.started)
        metrics.RESOURCES.record(key, status)
        if self._histories is not None:
            self._histories.record(observed, status)
        for change in outcome.changes:
            _log.info("applied", namespace=key.namespace, name=key.name, change=str(change))
        first = memory.rest is None
        memory = replace(memory, rest=None)
        if status != observed.consumer.status:
            if not same_but_moving(status, observed.consumer.status):
                memory = replace(memory, changed=now)
            self._remember(key, memory)
            if await self._write(observed, status, now - memory.written):
                memory = replace(memory, written=now)
        leaving = plan is not None and bool(plan.running.leaving)
        calm = now - memory.changed >= CALM_SECONDS and not leaving
        if calm and is_at_rest(observed, plan, errors, status):
            part = random.random() if first else 1.0  # noqa: S311 - spreads the plans of all resources
            memory = replace(memory, rest=Rest(seen, said, now + part * planning_seconds(self._resting)))
        self._remember(key, memory)
        return self._next(errors, status, calm=calm, starting=not calm and _are_starting(observed, status))

    def _next(
        self, errors: tuple[OperatorError, ...], status: EventConsumerStatus, *, calm: bool, starting: bool
    ) -> Next:
        if any(isinstance(error, Transient) for error in errors):
            return Next(None, failed=True)
        delays = [error.delay for error in errors if isinstance(error, DependencyNotReady)]
        if delays:
            return Next(min(delays))
        # Pending files become a batch, and a batch a Job, without a watch event.
        waiting = bool(status.lag.events or (status.spark and status.spark.pending_files))
        if calm and not waiting:
            return Next(resting_seconds(self._resting))
        return Next(starting_seconds(self._moving) if starting else moving_seconds(self._moving))

    @property
    def _resting(self) -> int:
        return len(self._memory) - self._moving

    def _remember(self, key: Key, memory: _Memory | None) -> None:
        """Replace the memory of a resource; None: it is gone."""
        before = self._memory.pop(key, None)
        if memory is not None:
            self._memory[key] = memory
        self._moving += _moves(memory) - _moves(before)

    async def _send(self, observed: Observed, hosts: int | None) -> None:
        if self._fleets and hosts is not None:
            await self._fleets.send(observed, hosts)

    async def _plan_and_apply(self, observed: Observed) -> tuple[Plan | None, Outcome]:
        if not self._store.synced(observed.consumer.key.namespace):
            # An object outside the store may exist: nothing is created, and running pods continue.
            return None, Outcome()
        try:
            plan = make_plan(observed, self._settings, self._fleets.public_pem if self._fleets else "")
        except SpecError as error:
            # Running pods continue with the last valid spec: an invalid spec does not stop draining.
            return None, Outcome(errors=(error,))
        return plan, await apply(self._api, observed, plan, self._contests)

    async def _write(self, observed: Observed, status: EventConsumerStatus, since: float) -> bool:
        """Write the status; return whether it was written. `since`: seconds since the last write."""
        consumer = observed.consumer
        if since < numbers_seconds(self._moving) and same_but_numbers(status, consumer.status):
            return False
        if since < planning_seconds(self._resting) and same_but_moving(status, consumer.status):
            return False
        try:
            await self._api.apply_status(
                {
                    "apiVersion": EVENT_CONSUMER.api_version,
                    "kind": EVENT_CONSUMER.name,
                    "metadata": {
                        "name": consumer.key.name,
                        "namespace": consumer.key.namespace,
                        "resourceVersion": consumer.resource_version,
                    },
                    "status": wire(status),
                }
            )
        except Gone:
            return False
        await self._recorder.record(observed, status)
        return True


def _moves(memory: _Memory | None) -> bool:
    return memory is not None and memory.rest is None


def _holds(rest: Rest | None, objects: bytes) -> bool:
    """Whether the last plan of a resource at rest may hold: the reports decide."""
    return rest is not None and rest.objects == objects and asyncio.get_running_loop().time() < rest.until


def _wanted_hosts(observed: Observed, plan: Plan | None) -> int | None:
    """Number of ordinals of desired hosts; without a plan those of the last valid plan. None: there was none."""
    effective = observed.consumer.status.effective
    if plan is None and effective is None:
        return None
    wanted = plan.hosts if plan else effective.replicas if effective else 0
    return ordinals(wanted, observed.pods, observed.now)


def _are_starting(observed: Observed, status: EventConsumerStatus) -> bool:
    """Whether there are pods whose hosts do not run yet."""
    running = sum(report.state is HostState.RUNNING for report in observed.reports.values())
    return running < min(status.hosts.desired, len(observed.pods))
