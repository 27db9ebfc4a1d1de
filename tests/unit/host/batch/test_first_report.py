"""The first report of a new leading host shows the owners of now, not of a scan before it led. In virtual time."""

import asyncio

from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.fleets import Distant, Fleet, Running, until


def pod(ordinal: int) -> str:
    return f"shop/orders/orders-host-{ordinal}.u1"


async def first_owners(host: Running) -> dict[str, str]:
    """The owners in the first report of a host that is about to lead."""
    leader = host.leader
    assert leader is not None
    while leader.fleet is None:
        await asyncio.sleep(0.01)
    return leader.fleet.owners


@virtual
async def test_a_host_that_leads_before_its_first_scan_reports_after_it() -> None:
    fleet = Fleet(FakeHub(8), storage_seconds=0.02)
    fleet.start(pod(0))
    await until(fleet.balanced, 60)
    fleet.leading = True
    slow = fleet.start(pod(1), leases=Distant(fleet.leases, 2.0))
    assert set((await first_owners(slow)).values()) >= {pod(0)}
    await fleet.close()
