"""Read /proc: processes, start times and parents.

A pid alone is not unique, because pids are reused; a pid together with its start time (in clock ticks since boot) and
the boot id identifies one process.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """One process, also after its pid is used again.

    Attributes:
        pid: Process id.
        started: Start time in clock ticks since boot: field 22 of /proc/<pid>/stat.
    """

    pid: int
    started: int


@dataclass(frozen=True)
class Process:
    """A snapshot of a process from /proc.

    Attributes:
        identity: The process.
        parent: Pid of its parent.
        state: One letter; Z has ended and waits for its parent.
        argv: Its command line; empty for kernel threads.
    """

    identity: Identity
    parent: int
    state: str
    argv: tuple[str, ...]

    @property
    def program(self) -> str:
        """The last part of the program's path."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""


def parse_stat(text: str) -> tuple[str, int, int]:
    """State, parent and start time of a /proc/<pid>/stat line.

    The command in parentheses may itself hold spaces and parentheses, so fields are counted from the last one.
    """
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def observe(pid: int) -> Process | None:
    """The process that has this pid now, or None."""
    try:
        state, parent, started = parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    argv = tuple(word.decode(errors="replace") for word in command.split(b"\0") if word)
    return Process(Identity(pid, started), parent, state, argv)


def all_processes() -> Iterator[Process]:
    """Every process of the machine."""
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := observe(int(entry.name))) is not None:
            yield process


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    process = observe(identity.pid)
    return process is not None and process.identity == identity and process.state != "Z"


def descendants(roots: Iterable[Identity], processes: Iterable[Process]) -> list[Process]:
    """The processes below the roots, without the roots.

    Args:
        roots: Where to start.
        processes: All processes of one observation.
    """
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root.pid for root in roots]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.identity.pid for process in below]
    return found


def boot_id() -> str:
    """The id of the machine's current boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal this process; never another one that has the same pid.

    Returns:
        False if it has ended.
    """
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):  # checked while the handle pins the pid's meaning
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def end(identity: Identity, patience: float) -> bool:
    """Ask a process to end, then force it.

    Args:
        identity: The process.
        patience: Seconds between SIGTERM and SIGKILL.

    Returns:
        False if it still exists five seconds after SIGKILL (it hangs in the kernel).
    """
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        if not send(identity, number) or _wait_gone(identity, seconds):
            return True
    return False


def _wait_gone(identity: Identity, seconds: float) -> bool:
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return True
    try:
        deadline = time.monotonic() + seconds
        while is_alive(identity) and (remaining := deadline - time.monotonic()) > 0:
            select.select([handle], [], [], min(remaining, 1.0))
    finally:
        os.close(handle)
    with contextlib.suppress(ChildProcessError, PermissionError):
        os.waitpid(identity.pid, os.WNOHANG)  # reap it, should it be our own child
    return not is_alive(identity)
