"""Reconciles one key: load -> plan -> apply -> status.

Level-triggered: every step starts from what is there, so it may be interrupted anywhere and repeated at any time.
Failures of single children end up in the status; only what keeps us from reading or writing the resource itself is
raised.
"""

import asyncio
from dataclasses import dataclass

import structlog

from eventconsumer_api.host_report import HostState
from eventconsumer_api.status import EventConsumerStatus
from eventconsumer_operator import metrics
from eventconsumer_operator.apply import Outcome, apply
from eventconsumer_operator.conditions.events import Recorder
from eventconsumer_operator.conditions.status import make_status, same_but_numbers, wire
from eventconsumer_operator.errors import DependencyNotReady, Gone, SpecError, Transient
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.writethrough import WriteThrough
from eventconsumer_operator.page.histories import Histories
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.hosts import Hosts
from eventconsumer_operator.resource.load import load
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.settings import Settings

_log = structlog.get_logger(__name__)

STARTING_SECONDS = 1.0  # look again after this while hosts are about to be ready: partitions await assignment
MOVING_SECONDS = 3.0  # look again after this while anything moves
RESTING_SECONDS = 15.0  # and after this while nothing does: hosts tell of problems only when asked
CALM_SECONDS = 30.0  # what did not change for this long rests, whether it is as wanted or stuck
NUMBERS_SECONDS = 3.0  # at most this often is a status written in which only numbers moved


@dataclass(frozen=True)
class Next:
    """When to look again.

    Attributes:
        delay: Seconds; None: only when the key is added again.
        failed: Whether to wait longer each time.
    """

    delay: float | None
    failed: bool = False


@dataclass
class _Memory:
    """When, on the event loop's clock, a resource's status was last written, and last differed from the one before."""

    written: float = float("-inf")
    moved: float = float("-inf")


class Reconciler:
    """Reconciles keys; safe to call for several keys at a time, not for one key twice at a time."""

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
        """Read from `store` and `hosts`, write with `api`, tell hosts by `fleets` and the page by `histories`."""
        self._api = WriteThrough(api, store)
        self._store = store
        self._hosts = hosts
        self._settings = settings
        self._fleets = fleets
        self._histories = histories
        self._recorder = Recorder(self._api)
        # Losing it, as a restart does, costs some reads and at most one write.
        self._memory: dict[Key, _Memory] = {}

    async def reconcile(self, key: Key) -> Next:
        """Bring one resource nearer to its spec.

        Raises:
            Forbidden, Transient: The status could not be written.
        """
        refusals = self._store.refusals(key.namespace)
        if not self._store.synced(key.namespace) and not refusals:
            return Next(None)  # the first list calls again
        observed = await load(self._store, self._hosts, key)
        if observed is None:
            self._memory.pop(key, None)
            self._recorder.forget(key)
            if self._fleets:
                self._fleets.forget(key)
            if self._histories is not None:
                self._histories.forget(key)
            metrics.RESOURCES.forget(key)
            return Next(None)
        plan, outcome = await self._plan_and_apply(observed)
        outcome.errors += refusals
        if self._fleets and (hosts := _wanted_hosts(observed, plan)) is not None:
            await self._fleets.tell(observed, hosts)
        status = make_status(observed, plan, tuple(outcome.errors), self._settings, started=outcome.started)
        metrics.RESOURCES.record(key, status)
        if self._histories is not None:
            self._histories.record(observed, status)
        for change in outcome.changes:
            _log.info("applied", namespace=key.namespace, name=key.name, change=str(change))
        memory = self._memory.setdefault(key, _Memory())
        now = asyncio.get_running_loop().time()
        if status != observed.consumer.status:
            memory.moved = now
            await self._write(observed, status, memory, now)
        leaving = plan is not None and bool(plan.running.leaving)
        calm = now - memory.moved >= CALM_SECONDS and not leaving
        return _next(outcome, status, calm=calm, starting=not calm and _are_starting(observed, status))

    async def _plan_and_apply(self, observed: Observed) -> tuple[Plan | None, Outcome]:
        if not self._store.synced(observed.consumer.key.namespace):
            return (
                None,
                Outcome(),
            )  # an object that is not seen may exist: nothing is created, and running pods continue
        try:
            plan = make_plan(observed, self._settings, self._fleets.public_pem if self._fleets else "")
        except SpecError as error:
            # Running pods continue with the last valid spec: a typing error is no reason to stop draining.
            return None, Outcome(errors=[error])
        return plan, await apply(self._api, observed, plan)

    async def _write(self, observed: Observed, status: EventConsumerStatus, memory: _Memory, now: float) -> None:
        consumer = observed.consumer
        if now - memory.written < NUMBERS_SECONDS and same_but_numbers(status, consumer.status):
            return
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
            return
        memory.written = now
        await self._recorder.record(observed, status)


def _wanted_hosts(observed: Observed, plan: Plan | None) -> int | None:
    """Without a plan the last valid one stands, as it does for what runs; None: there was none."""
    if plan:
        return plan.hosts
    effective = observed.consumer.status.effective
    return effective.replicas if effective else None


def _are_starting(observed: Observed, status: EventConsumerStatus) -> bool:
    """Whether there are pods whose hosts do not read yet."""
    running = sum(report.state is HostState.RUNNING for report in observed.reports.values())
    return running < min(status.hosts.desired, len(observed.pods))


def _next(outcome: Outcome, status: EventConsumerStatus, *, calm: bool, starting: bool) -> Next:
    if any(isinstance(error, Transient) for error in outcome.errors):
        return Next(None, failed=True)
    delays = [error.delay for error in outcome.errors if isinstance(error, DependencyNotReady)]
    if delays:
        return Next(min(delays))
    # Files that wait become a batch, and a batch a Job, without any change before it.
    waiting = bool(status.lag.events or (status.spark and status.spark.pending_files))
    if calm and not waiting:
        return Next(RESTING_SECONDS)
    return Next(STARTING_SECONDS if starting else MOVING_SECONDS)
