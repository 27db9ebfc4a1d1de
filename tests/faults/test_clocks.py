"""Hosts whose clocks are wrong (row 16 of the fault list).

clock.c is loaded before the C library, so that all of a host process sees another time; where there is no C compiler,
these rows are skipped. What Azure does about an hour is another matter: it refuses requests and tokens whose time is
off, and the host then says that its credential is refused.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.stage import (
    FaultStage,
    logged,
    publish,
    wait_owned,
)
from tests.integration.processor.hosts import HostProcess
from tests.support.faultactions import Hold
from tests.support.faultproxy import Match
from tests.support.waiting import wait_until

HOUR = 3600.0


def clock(directory: Path, *, offset: float = 0, rate: float = 1) -> dict[str, str]:
    """Environment of a process whose wall clock is `offset` seconds off, and whose other clocks run at `rate`."""
    library = directory / "clock.so"
    if not library.exists():
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset), "CLOCK_RATE": str(rate)}


def _shared(first: HostProcess, second: HostProcess) -> bool:
    return len(first.owned()) == len(second.owned()) == 2 and not first.owned() & second.owned()


@pytest.mark.parametrize(
    ("offset", "rate"),
    [pytest.param(HOUR, 1, id="ahead")]
    + [
        pytest.param(offset, rate, id=name, marks=pytest.mark.long)
        for offset, rate, name in ((-0.9 * HOUR, 1, "behind"), (0, 1.1, "fast"), (0, 0.9, "slow"))
    ],
)
def test_16_clock_is_wrong(stage: FaultStage, offset: float, rate: float) -> None:
    orders, proxy = stage.consumer(partitions=4), stage.proxy()
    publish(orders, 100)
    wrong = stage.host(orders, "wrong", proxy, environment=clock(stage.directory, offset=offset, rate=rate))
    right = orders.host("right")
    wait_until(lambda: _shared(wrong, right), "both have their share")
    given = len(logged(wrong, "pump closed"))
    publish(orders, 100, start=400)
    stage.settled(orders, 800)
    if offset:
        shown = logged(wrong, "listening")[0]["timestamp"] > logged(right, "listening")[0]["timestamp"]
        assert shown == (offset > 0)
    else:
        assert os.environ.get("LD_PRELOAD") is None  # only the host's clock is wrong
    assert len(logged(wrong, "pump closed")) == given  # no lease is lost
    held = wrong.owned()
    proxy.add(Match(), Hold())
    publish(orders, 100, start=800)
    wait_owned(right, 4)
    wait_until(lambda: {entry["partition"] for entry in logged(wrong, "pump closed")} >= held, "it fences itself")
    stage.settled(orders, 1200)
    proxy.clear()
    wait_until(lambda: _shared(wrong, right), "both have their share again")
    publish(orders, 100, start=1200)
    stage.settled(orders, 1600)
