"""Where benchmarks run and what processes took: cores, CPU time, memory, and the servers.

The client under measurement has the first core for itself, the servers and whoever watches have the last one. A process
inherits the cores of the thread that starts it, so `on_core` decides where a child runs before it has any thread.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

_CORES = sorted(os.sched_getaffinity(0))
CLIENT_CORE, SERVER_CORE = _CORES[0], _CORES[-1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started inside runs on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def emulator_at(scratch: Path, *options: str) -> Iterator[EmulatorProcess]:
    """An emulator on the servers' core that keeps 2 GiB a partition."""
    emulator = EmulatorProcess(scratch, "--quiet", "--retention-mib=2048", "--retention-events=20000000", *options)
    try:
        with on_core(SERVER_CORE):
            emulator.start()
        yield emulator
    finally:
        emulator.close()


@contextmanager
def servers_at(
    scratch: Path, *options: str, access_log: bool = False
) -> Iterator[tuple[EmulatorProcess, AzuriteProcess]]:
    """An emulator and an Azurite on the servers' core."""
    azurite = AzuriteProcess(scratch / "azurite.log", access_log=access_log)
    try:
        with on_core(SERVER_CORE):
            azurite.start()
        with emulator_at(scratch, *options) as emulator:
            yield emulator, azurite
    finally:
        azurite.close()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system, all threads, also those that have ended; to the nanosecond.

    The process's clock is what the scheduler counts, without the ticks of /proc/<pid>/stat. Source of its number:
    `MAKE_PROCESS_CPUCLOCK` and `CPUCLOCK_SCHED` in include/linux/posix-timers.h of Linux.
    """
    return time.clock_gettime(~pid << 3 | 2)


def with_children(pid: int) -> list[int]:
    """A process and the processes that it started, which have not ended."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found += map(int, (thread / "children").read_text().split())
    return found


def peak_mib(pid: int) -> float:
    """The most resident memory of a process so far, MiB."""
    return _status_kib(pid, "VmHWM:") / 1024


def resident_mib(pid: int) -> float:
    """The resident memory of a process now, MiB."""
    return _status_kib(pid, "VmRSS:") / 1024


def _status_kib(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
