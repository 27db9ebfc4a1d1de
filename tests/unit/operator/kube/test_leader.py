"""Leader election on virtual time: one leads, whatever fails, and the other follows in time."""

import asyncio
from collections.abc import Callable

import pytest

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.errors import Forbidden, Transient
from eventconsumer_operator.kube.leader import DURATION_SECONDS, NAME, STOP_SECONDS, Elector, LeadLost
from eventconsumer_operator.kube.manifest import LEASE
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.fakes.virtual import virtual

HOME = "home"


class Line:
    """One candidate's connection to the API, which a test can cut."""

    def __init__(self, api: FakeKubernetes) -> None:
        self.api = api
        self.cut = False
        self.hangs = False
        self.deaf = False  # writes arrive, answers do not

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        await self._fail()
        return await self.api.get(kind, namespace, name)

    async def create(self, manifest: Manifest) -> Manifest | None:
        await self._fail()
        return await self.api.create(manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        await self._fail()
        result = await self.api.replace(manifest)
        if self.deaf:
            raise Transient("no answer")
        return result

    async def _fail(self) -> None:
        if self.hangs:
            await asyncio.sleep(1e6)
        if self.cut:
            raise Transient("away")


class Race:
    """Two candidates for one Lease, and when each led."""

    def __init__(self) -> None:
        self.api = FakeKubernetes()
        self.lines = {name: Line(self.api) for name in "ab"}
        self.leads: dict[str, bool] = dict.fromkeys("ab", False)
        self.log: list[tuple[float, str, bool]] = []
        self._tasks = {name: asyncio.create_task(self._run(name)) for name in "ab"}

    async def _run(self, name: str) -> None:
        while True:
            elector = Elector(self.lines[name], HOME, name)
            await elector.win()
            assert not any(self.leads.values()), f"{self.leads} and {name} lead at a time"
            self._note(name, True)
            try:
                await elector.keep()
            except LeadLost:
                self._note(name, False)  # the process ends and starts again

    def _note(self, name: str, leads: bool) -> None:
        self.leads[name] = leads
        self.log.append((asyncio.get_running_loop().time() - 1000, name, leads))

    @property
    def leader(self) -> str:
        return next((name for name, leads in self.leads.items() if leads), "")

    async def until(self, question: Callable[[], bool], seconds: float) -> float:
        """Wait until the question is answered with yes; return how long that took."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(seconds):
            while not question():
                await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - began

    async def close(self) -> None:
        for task in self._tasks.values():
            assert not task.done(), task.exception()
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@virtual
async def test_one_candidate_leads_for_good() -> None:
    race = Race()
    await asyncio.sleep(3600)
    assert [(round(when), leads) for when, _, leads in race.log] == [(0, True)]
    spec = race.api.peek(LEASE, HOME, NAME)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == (race.leader, 0)
    await race.close()


@pytest.mark.parametrize("how", ["cut", "hangs"])
@virtual
async def test_a_leader_that_cannot_renew_stops_before_the_other_takes_over(how: str) -> None:
    race = Race()
    await asyncio.sleep(60)
    first = race.leader
    setattr(race.lines[first], how, True)
    stopped = await race.until(lambda: not race.leads[first], STOP_SECONDS + 0.2)
    taken = stopped + await race.until(lambda: bool(race.leader), 20)
    assert stopped < DURATION_SECONDS - 2 and taken <= DURATION_SECONDS + 3
    assert race.leader != first
    assert race.api.peek(LEASE, HOME, NAME)["spec"]["leaseTransitions"] == 1
    await race.close()


@pytest.mark.parametrize("how", ["cut", "deaf"])
@virtual
async def test_a_short_outage_or_a_lost_answer_changes_no_leader(how: str) -> None:
    race = Race()
    await asyncio.sleep(60)
    for fails in (True, False):
        for line in race.lines.values():
            setattr(line, how, fails)
        await asyncio.sleep(5)
    await asyncio.sleep(60)
    assert len(race.log) == 1
    await race.close()


@virtual
async def test_a_released_lease_is_taken_at_once() -> None:
    api = FakeKubernetes()
    first, second = Elector(api, HOME, "a"), Elector(api, HOME, "b")
    await first.win()
    waiting = asyncio.create_task(second.win())
    await asyncio.sleep(5)
    assert not waiting.done()
    await first.release()
    await asyncio.wait_for(waiting, 2.1)


@pytest.mark.parametrize("change", ["take", "remove"])
@virtual
async def test_a_lease_that_was_taken_or_removed_is_lost(change: str) -> None:
    api = FakeKubernetes()
    elector = Elector(api, HOME, "a")
    await elector.win()
    lease = api.peek(LEASE, HOME, NAME)
    if change == "take":
        api.put(lease | {"spec": lease["spec"] | {"holderIdentity": "b"}})
    else:
        api.remove(LEASE, HOME, NAME)
    with pytest.raises(LeadLost):
        await asyncio.wait_for(elector.keep(), STOP_SECONDS)


@virtual
async def test_clocks_of_others_do_not_matter() -> None:
    api = FakeKubernetes()
    other = Elector(api, HOME, "a")
    await other.win()
    lease = api.peek(LEASE, HOME, NAME)
    for wrong in ("1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"):
        api.put(lease | {"spec": lease["spec"] | {"renewTime": wrong}})
        began = asyncio.get_running_loop().time()
        waiting = Elector(api, HOME, wrong)
        await waiting.win()
        assert DURATION_SECONDS <= asyncio.get_running_loop().time() - began <= DURATION_SECONDS + 3


@virtual
async def test_a_candidate_without_the_right_waits_until_it_has_it() -> None:
    api = FakeKubernetes()
    for _ in range(3):
        api.fail_once("get", Forbidden("no leases for you"))
    await asyncio.wait_for(Elector(api, HOME, "a").win(), 10)
    assert api.peek(LEASE, HOME, NAME)["spec"]["holderIdentity"] == "a"
