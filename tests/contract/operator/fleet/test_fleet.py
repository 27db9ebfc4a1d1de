"""The operator as a process tells hosts their fleet, and the product's hosts believe it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventconsumer_api.wire.identity import owner_id
from eventconsumer_host.lease.planned_balancer import Fleet
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.operator_messages import OperatorMessages
from tests.contract.operator.test_operator import SPEC, ProcessWorld, hub, ready, world
from tests.support.waiting import HANG_SECONDS

__all__ = ["hub", "world"]  # fixtures

PODS = frozenset(f"orders-host-{number}" for number in range(4))


async def believed(world: ProcessWorld, folder: Path, wanted: Callable[[Fleet], bool]) -> Fleet:
    """Wait until a host was told what is `wanted`, and believes it by the ConfigMap that it mounts."""
    key_file = folder / "fleet.pem"
    key_file.write_text((await world.get("cm", "orders-host"))["data"]["fleet.pem"])
    namespace = (await world.get("evc", "orders"))["metadata"]["namespace"]
    news = OperatorMessages(f"{namespace}/orders", key_file, Metrics(), time.monotonic)
    world.simulation.heard.clear()
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        heard, world.simulation.heard = world.simulation.heard, []
        for name, body, signature in heard:
            if name == "orders-host-0":
                news.receive(body, signature)
                if (fleet := news.current()) and wanted(fleet):
                    return fleet
        await asyncio.sleep(0.2)
    raise AssertionError(f"{news.current()}\n{world.operator.log.read_text()[-5000:]}")


async def test_hosts_believe_which_hosts_are_wanted_ready_and_gone_also_after_a_restart_of_the_operator(
    world: ProcessWorld, tmp_path: Path
) -> None:
    world.apply(SPEC)
    await world.until(ready)
    fleet = await believed(world, tmp_path, lambda fleet: fleet.ready == PODS)
    assert (fleet.hosts, fleet.partitions, fleet.gone) == (4, 8, frozenset())

    # An operator that starts again has a new key, and restarts no pod.
    template = (await world.get("sts", "orders-host"))["spec"]["template"]
    before = (await world.get("cm", "orders-host"))["data"]
    world.operator.stop()
    world.operator.start()

    async def changed() -> Any:
        after = (await world.get("cm", "orders-host"))["data"]
        return after if after != before else None

    after = await world.until_true(changed)
    assert after["config.json"] == before["config.json"]
    assert after["fleet.pem"].startswith("-----BEGIN PUBLIC KEY-----")
    await believed(world, tmp_path, lambda fleet: fleet.ready == PODS)
    assert (await world.get("sts", "orders-host"))["spec"]["template"] == template

    former = (await world.get("pod", "orders-host-1"))["metadata"]
    await world.kubectl("delete", "pod", "orders-host-1", "--grace-period=0", "--force")
    fleet = await believed(world, tmp_path, lambda fleet: bool(fleet.gone))
    assert fleet.gone == {owner_id(f"{former['namespace']}/orders", "orders-host-1", former["uid"])}
    world.apply(SPEC | {"scaling": {"partitionsPerHost": 4}})
    fleet = await believed(world, tmp_path, lambda fleet: fleet.hosts == 2)
    assert fleet.ready <= {"orders-host-0", "orders-host-1"}
