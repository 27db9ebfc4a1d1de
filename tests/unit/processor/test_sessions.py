"""A host's session: what is tied to it is held as long as it, and is lost with it; and when leases may be tied."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_processor.audit.owners import LeaseReader, LeaseSubject
from eventconsumer_processor.errors import Conflict, LeaseLost, StorageError, Unavailable
from eventconsumer_processor.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.lease.hostsession import HostSession
from eventconsumer_processor.lease.keeper import Bond, Keeper
from eventconsumer_processor.lease.model import Lease
from eventconsumer_processor.lease.sessions import Session, TieRule, is_held, is_tied
from eventconsumer_processor.storage import FOREVER
from eventconsumer_processor.tools.leases import state_of
from eventconsumer_processor.tools.model import LeaseState
from tests.fakes.blobs import EPOCH, FakeBlobStore, Fault
from tests.fakes.virtual import virtual
from tests.unit.processor.auditing import StoreContainer
from tests.unit.processor.fleets import LAYOUTS as NAMES
from tests.unit.processor.fleets import Fleet, cancelled, fleet_test, until
from tests.unit.processor.test_fleet_partitions import pod
from tests.unit.processor.test_keeper import LAYOUTS

OWNER = "host-a.u1"
SESSION = Session("host-a", "t1")


def lease_of(owner: str = OWNER, session: str = SESSION.text) -> Lease:
    """A lease that is listed."""
    return Lease("0", owner, "token", leased=True, session=session, endless=True)


@pytest.mark.parametrize(
    ("lease", "sessions", "tied", "held"),
    [
        (lease_of(), [SESSION], True, True),
        (lease_of(), [Session("host-a", "t1", alive=False)], True, False),
        (lease_of(), [Session("host-a", "t2")], True, False),  # of the next process in that pod
        (lease_of(), [], True, False),
        (lease_of("another"), [SESSION], False, False),  # a program that took it over and left the name there
        (lease_of("host-b.u1"), [SESSION, Session("host-b", "t1")], False, False),
        (lease_of(session=""), [SESSION], False, False),
        (lease_of(owner="", session=""), [SESSION], False, False),
        (lease_of(session="host-a"), [SESSION], False, False),
    ],
)
def test_a_tied_lease_is_held_by_the_very_session_that_it_names(
    lease: Lease, sessions: list[Session], tied: bool, held: bool
) -> None:
    assert is_tied(lease) == tied
    assert is_held(lease, {session.pod: session for session in sessions}) == held


def test_leases_are_tied_only_while_every_owner_has_a_session() -> None:
    rule = TieRule(30, shared=False)
    mine, other = {"0": lease_of("me-0.u1")}, {"1": lease_of()}
    rule.look(0, "me-0.u1", mine, {})
    assert (rule.may_tie, rule.must_untie) == (True, False)
    rule.look(1, "me-0.u1", mine | other, {})
    assert (rule.may_tie, rule.must_untie) == (False, False)
    rule.look(30, "me-0.u1", mine | other, {"host-a": Session("host-a", "t1", alive=False)})
    assert (rule.may_tie, rule.must_untie) == (False, False)
    rule.look(31, "me-0.u1", mine | other, {})
    assert (rule.may_tie, rule.must_untie) == (False, True)
    rule.look(32, "me-0.u1", mine | other, {"host-a": SESSION})
    assert (rule.may_tie, rule.must_untie) == (True, False)
    rule.look(70, "me-0.u1", mine | other, {})  # patience begins anew
    assert (rule.may_tie, rule.must_untie) == (False, False)


def test_nothing_is_tied_where_other_programs_share_the_leases() -> None:
    rule = TieRule(30, shared=True)
    rule.look(0, OWNER, {}, {})
    assert (rule.may_tie, rule.must_untie) == (False, True)


class Tied:
    """A lease on virtual time that is tied to a session's keeper at its first renewal."""

    def __init__(self) -> None:
        self.clock = asyncio.get_running_loop().time
        self.renewed: list[float] = []
        self.untied: list[float] = []
        self.session = Keeper("session", self.alive, 30, self.clock(), self.clock)
        self.may_tie = True
        self.silent = False
        self.failing: StorageError | None = None
        self.keeper = Keeper("partition 0", self.renew, 30, self.clock(), self.clock, ties=self)
        self.began = self.clock()

    async def alive(self) -> None:
        """The session is renewed."""
        if self.silent:
            raise Unavailable("down")

    async def renew(self) -> None:
        """The lease is renewed."""
        self.renewed.append(round(self.clock() - self.began))

    def bond(self) -> Bond | None:
        """See `Ties`."""
        return Bond(SESSION.text, self.session) if self.may_tie else None

    async def tie(self, session: str) -> None:
        """See `Ties`."""
        assert session == SESSION.text
        if self.failing:
            raise self.failing

    async def untie(self) -> None:
        """See `Ties`."""
        if self.failing:
            raise self.failing
        self.untied.append(round(self.clock() - self.began))

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[asyncio.Task[None]]:
        """Both keepers at work."""
        tasks = [asyncio.create_task(keeper.run()) for keeper in (self.session, self.keeper)]
        yield tasks[1]
        for task in tasks:
            await cancelled(task)


@virtual
async def test_a_tied_lease_is_not_renewed_and_ends_in_the_moment_in_which_the_session_does() -> None:
    world = Tied()
    async with world.kept() as keeping:
        await asyncio.sleep(600)
        assert world.renewed == [18]
        world.keeper.check()
        world.silent = True
        while not world.session.lost.is_set():
            world.keeper.check()
            await asyncio.sleep(0.1)
        with pytest.raises(LeaseLost, match="could not be renewed in time"):
            world.keeper.check()
        await asyncio.wait_for(keeping, 1)


@virtual
async def test_a_tied_lease_is_lost_after_a_suspend_though_no_timer_fired() -> None:
    now = [0.0]
    session = Keeper("session", AsyncMock(), 30, 0.0, lambda: now[0])
    ties = Mock(bond=lambda: Bond(SESSION.text, session), tie=AsyncMock())
    keeper = Keeper("partition 0", AsyncMock(), 30, 0.0, lambda: now[0], ties=ties)
    await keeper._tie()
    assert keeper.tied
    now[0] = 26.9
    keeper.check()
    now[0] = 27.1
    with pytest.raises(LeaseLost):
        keeper.check()
    assert session.lost.is_set()


@virtual
async def test_a_lease_that_cannot_be_tied_is_renewed_and_tried_again() -> None:
    world = Tied()
    world.failing = Unavailable("down")
    async with world.kept():
        await asyncio.sleep(20)
        assert world.renewed == [18]
        assert not world.keeper.tied
        world.failing = None
        await asyncio.sleep(600)
        assert world.keeper.tied
        assert (world.renewed, world.untied) == ([18], [36])  # whether it was tied is not known: it is untied first


@virtual
async def test_a_lease_that_may_be_tied_ends_with_the_session_too() -> None:
    world = Tied()
    world.failing = Unavailable("down")
    async with world.kept() as keeping:
        await asyncio.sleep(20)
        world.session.lose("broken")
        with pytest.raises(LeaseLost, match="broken"):
            world.keeper.check()
        await asyncio.wait_for(keeping, 1)


@virtual
async def test_a_lease_that_may_be_untied_runs_out() -> None:
    world = Tied()
    async with world.kept() as keeping:
        await asyncio.sleep(100)
        world.failing = Unavailable("down")
        world.keeper.loosen()
        began = world.clock()
        await keeping
        assert 26 < world.clock() - began < 28
        world.session.check()


@virtual
async def test_a_lease_that_is_loosened_is_renewed_by_itself_until_it_may_be_tied_again() -> None:
    world = Tied()
    async with world.kept():
        await asyncio.sleep(100)
        world.may_tie, world.failing = False, Unavailable("down")
        world.keeper.loosen()
        await asyncio.sleep(10)
        world.keeper.check()
        world.failing = None
        await asyncio.sleep(2)
        assert not world.keeper.tied
        assert len(world.untied) == 1
        await asyncio.sleep(50)
        assert len(world.renewed) == 3
        world.may_tie = True
        await asyncio.sleep(50)
        assert world.keeper.tied


@pytest.mark.parametrize("make", LAYOUTS)
@virtual
async def test_a_tie_whose_answers_are_lost_leaves_nothing_behind(make: Any) -> None:
    clock = asyncio.get_running_loop().time
    for operation in ("acquire_lease", "renew_lease", "release_lease", "put", "set_metadata", "read", "head"):
        for applied in (False, True):
            blobs = FakeBlobStore(clock)
            store = make(blobs, clock)
            rule = TieRule(30, shared=False)
            session = HostSession(store.sessions, OWNER, 30, rule, clock)
            await session.start()
            rule.may_tie = True
            taken = await store.acquire((await store.list(["0"])).leases["0"], OWNER)
            held = HeldLease(store, taken, clock, session.bond)
            bond = held.bond()
            assert bond
            tie = partial(held.tie, bond.session)
            for change in (tie, held.untie, tie, partial(held.raise_epoch, 8)):
                blobs.faults.append(Fault(operation, applied))
                with contextlib.suppress(Unavailable):
                    await change()
            blobs.faults.clear()
            assert not held.keeper.lost.is_set(), (operation, applied)
            seen = (await store.list(["0"])).leases["0"]
            assert seen.leased, (operation, applied)
            await held.release()
            seen = (await store.list(["0"])).leases["0"]
            assert not seen.leased, (operation, applied)
            assert await store.acquire(seen, "host-b.u1") is not None, (operation, applied)
            await session.end()


@virtual
async def test_a_tie_that_arrives_after_the_lease_was_untied_is_refused() -> None:
    clock = asyncio.get_running_loop().time
    blobs = FakeBlobStore(clock)
    store = EventProcessorHostStore(blobs, "", "$Default", 30, clock)
    taken = await store.acquire((await store.list(["0"])).leases["0"], OWNER)
    assert taken
    tied = await store.tie(taken.lease, SESSION.text)
    untied = await store.untie(tied)
    assert not untied.endless
    with pytest.raises(Conflict):
        await blobs.acquire_lease(store.name("0"), tied.token, FOREVER, if_match=tied.etag)
    assert (await store.list(["0"])).leases["0"].leased
    await asyncio.sleep(31)
    assert not (await store.list(["0"])).leases["0"].leased


@pytest.mark.parametrize(("layout", "make"), [(NAMES[n], each.values[0]) for n, each in enumerate(LAYOUTS)])
@virtual
async def test_programs_that_only_look_see_who_holds_a_tied_lease(layout: str, make: Any) -> None:
    clock = asyncio.get_running_loop().time
    blobs = FakeBlobStore(clock)
    store = make(blobs, clock)
    subject = LeaseSubject(StoreContainer(blobs, "leases"), "", "$Default", LeaseLayout(layout))
    reader = LeaseReader(subject, "ns", "hub")

    async def state() -> tuple[bool, LeaseState]:
        facts = (await reader.read())["0"]
        return facts.tied, state_of(facts, LeaseLayout(layout), EPOCH + timedelta(seconds=clock()))

    await store.sessions.begin(SESSION)
    taken = await store.acquire((await store.list(["0"])).leases["0"], OWNER)
    assert await state() == (False, LeaseState.HELD)
    lease = await store.tie(taken.lease, SESSION.text)
    for _ in range(5):
        await asyncio.sleep(20)
        await store.sessions.renew(SESSION)
    assert await state() == (True, LeaseState.HELD)
    await store.sessions.end(SESSION)
    assert await state() == (True, LeaseState.EXPIRED)
    await store.sessions.begin(Session(SESSION.pod, "of the next process"))
    assert await state() == (True, LeaseState.EXPIRED)
    await store.untie(lease)
    assert await state() == (False, LeaseState.HELD)
    await asyncio.sleep(31)
    assert await state() == (False, LeaseState.EXPIRED)


@pytest.mark.parametrize("make", LAYOUTS)
@virtual
async def test_a_session_is_renewed_begun_anew_when_lost_and_ended(make: Any) -> None:
    clock = asyncio.get_running_loop().time
    blobs = FakeBlobStore(clock)
    store = make(blobs, clock)
    rule = TieRule(30, shared=False)
    session = HostSession(store.sessions, OWNER, 30, rule, clock)
    await session.start()
    assert session.bond() is None
    rule.may_tie = True
    first = session.bond()
    assert first is not None
    await asyncio.sleep(100)
    assert [operation for operation, _ in blobs.calls].count("renew_lease") == 5
    blobs.break_lease(store.sessions.name("host-a"), 0)
    await asyncio.sleep(30)
    second = session.bond()
    assert first.keeper.lost.is_set()
    assert second is not None and second.session != first.session
    assert (await store.list(["0"])).sessions["host-a"].text == second.session
    await session.end()
    assert not (await store.list(["0"])).sessions["host-a"].alive


@virtual
async def test_a_session_that_cannot_be_had_is_tried_again() -> None:
    clock = asyncio.get_running_loop().time
    blobs = FakeBlobStore(clock)
    store = LAYOUTS[0].values[0](blobs, clock)  # type: ignore[operator]
    await store.sessions.begin(Session("host-a", "of the process before"))
    rule = TieRule(30, shared=False)
    session = HostSession(store.sessions, OWNER, 30, rule, clock)
    rule.may_tie = True
    await session.start()
    assert session.bond() is None
    await asyncio.sleep(41)
    assert session.bond() is not None
    await session.end()


@pytest.mark.parametrize("layout", NAMES)
def test_hosts_untie_while_one_of_them_knows_no_sessions(layout: str) -> None:
    """As in the middle of an upgrade, or of the way back."""

    async def test(fleet: Fleet) -> None:
        for ordinal in range(2):
            fleet.start(pod(ordinal))
        await until(lambda: [host.manager.renewals() for host in fleet.hosts.values()] == [1, 1], 120)
        old = fleet.start(pod(2))
        old.manager._session.start = AsyncMock()  # type: ignore[method-assign]
        await until(fleet.balanced, 200)
        await until(lambda: [host.manager.renewals() for host in fleet.hosts.values()] == [3, 3, 2], 120)
        await old.stop()
        del fleet.hosts[pod(2)]
        await until(fleet.balanced, 120)
        await until(lambda: [host.manager.renewals() for host in fleet.hosts.values()] == [1, 1], 120)

    fleet_test(test, 6, layout)
