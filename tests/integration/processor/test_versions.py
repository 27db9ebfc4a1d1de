"""Hosts of the previous release and of this tree share one consumer and take over from each other, as in an upgrade."""

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.test_drain import wait_drained
from tests.support.previous import check_out, need_previous
from tests.support.waiting import wait_until

SECONDS = 180.0  # for whatever should take a few, on a busy machine too
PARTITIONS = 4


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a host of the previous release: its code, with the libraries of this tree."""
    commit = need_previous()
    tree = check_out(commit, tmp_path_factory.mktemp("previous") / "tree")
    folders = [tree / "crds/src", tree / "storage/src", tree / "processor_image/src"]
    assert all(folder.is_dir() for folder in folders), f"{commit} has no such folders: {folders}"
    return {"PYTHONPATH": ":".join(map(str, folders))}


def test_an_upgrade_and_a_rollback_host_by_host(consumer: MakeConsumer, old: dict[str, str]) -> None:
    orders = consumer(partitions=PARTITIONS)
    orders.publish(1000)
    first = orders.host("orders-host-0", environment=old)
    wait_drained(orders, 1000)
    second = orders.host("orders-host-1")
    wait_until(lambda: len(first.owned()) == len(second.owned()) == PARTITIONS // 2, "both have their share")
    orders.publish(1000, start=1000)
    wait_drained(orders, 2000)
    assert first.terminate() == 0
    orders.publish(1000, start=2000)
    wait_until(lambda: len(second.owned()) == PARTITIONS, "this tree's host has all of them")
    wait_drained(orders, 3000)
    assert second.terminate() == 0
    orders.publish(1000, start=3000)
    back = orders.host("orders-host-0", environment=old)
    wait_until(lambda: len(back.owned()) == PARTITIONS, "the previous release has all of them again")
    wait_drained(orders, 4000)
    assert [host.name for host in orders.hosts if "Traceback" in host.log] == []
