"""A host that was taken over: its answers to the operator."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from eventconsumer_operator.resource.hosts import BACKOFF_SECONDS, HttpHosts, host_session
from tests.attackers.hostile_host import KINDS, address
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.bench.machine import resident_mib
from tests.support.azurite import free_port
from tests.unit.operator.worlds import report

Session = Callable[[], aiohttp.ClientSession]
HOSTS = 32
GOOD = {f"good-{number}": f"127.0.3.{number}" for number in range(1, 9)}
GOOD_REPORT = report()
CPU_SECONDS = 1.0  # for all answers; without the limits 2.5 to 15. The operator's /healthz fails at 10 s.
LIMIT_MIB = 64


@contextmanager
def taken_over(kinds: Sequence[str], port: int, log: Path) -> Iterator[Callable[[], int]]:
    """Hostile hosts in a process of their own; yields the number of requests that they have received."""

    def asked() -> int:
        return int(log.read_text().rpartition("\n")[0].rpartition("\n")[2] or -1)

    command = [sys.executable, "-m", "tests.attackers.hostile_host", str(port), str(HOSTS), *kinds]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output)
    try:
        while not log.read_text():
            time.sleep(0.05)
        yield asked
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def good_hosts(port: int) -> AsyncIterator[None]:
    async def status(_: web.Request) -> web.Response:
        return web.Response(text=GOOD_REPORT.model_dump_json(by_alias=True))

    application = web.Application()
    application.router.add_get("/status", status)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    for each in GOOD.values():
        await web.TCPSite(runner, each, port).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def asked(kinds: Sequence[str], session: Session, folder: Path) -> Outcome:
    """Ask good and hostile hosts three times in the time of the first back-off."""
    port, now = free_port(), [0.0]
    with taken_over(kinds, port, folder / session.__name__) as requests:
        async with good_hosts(port), session() as client:
            hosts = HttpHosts(client, port, lambda: now[0])
            before, begun = resident_mib(os.getpid()), time.process_time()
            addresses = GOOD | {f"host-{number}": address(number) for number in range(1, HOSTS + 1)}
            with capture_logs() as entries:
                first = await hosts.reports(addresses)
                await asyncio.sleep(0.5)  # connections that are kept
                seen = requests()
                for _ in range(2):
                    now[0] += BACKOFF_SECONDS / 4
                    again = await hosts.reports(addresses)
            used, growth = time.process_time() - begun, resident_mib(os.getpid()) - before
            repeated = requests() - seen
    print(
        f"\n{kinds}: {HOSTS} hosts, {session.__name__}: {used:.2f} CPU seconds, {growth:.0f} MiB, "
        f"{repeated} more requests"
    )
    if used > CPU_SECONDS or growth > LIMIT_MIB:
        return Gained(f"{used:.1f} CPU seconds of the event loop, {growth:.0f} MiB")
    assert repeated <= 2 * HOSTS, "no redirect is followed"
    assert first == again == dict.fromkeys(GOOD, GOOD_REPORT), "other hosts are read as before"
    causes = {str(entry["error"]) for entry in entries if entry["log_level"] == "warning"}
    return Refused(f"limits of answers: {causes}; {repeated} more requests")


@pytest.mark.long  # contract/api/shared/test_limited_http.py has each limit
@pytest.mark.parametrize("kind", ["informational", "chunks", "behind"])
async def test_answers_without_an_end_take_little_of_the_operator_and_nothing_of_other_hosts(
    kind: str, tmp_path: Path
) -> None:
    assert isinstance(await asked([kind], host_session, tmp_path), Refused)
    assert isinstance(await asked([kind], aiohttp.ClientSession, tmp_path), Gained)


async def test_bad_answers_of_all_kinds_at_once_take_little_of_the_operator_and_nothing_of_other_hosts(
    tmp_path: Path,
) -> None:
    assert isinstance(await asked(KINDS, host_session, tmp_path), Refused)
