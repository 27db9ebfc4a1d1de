"""Any other pod of the cluster: it reaches the HTTP ports of operator and hosts where no network policy is enforced."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import aiohttp
import pytest

from eventconsumer_api.shared.limited_http import LimitedRunner
from eventconsumer_operator.page.server import HEADERS, host_names, make_application
from tests.attackers import served
from tests.attackers.flood import KINDS
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.contract.operator.pageworld import KEY, filled_book

Program = Callable[..., AbstractContextManager[served.Served]]

FLOOD = 250  # connections of one pod: without limits they take more than the memory limit of the operator, 512 MiB
# Each of 32 connections may hold 512 KiB of a request to a host, or 32 KiB of one to the operator, and more than that
# while it is parsed. It is a fifth of the memory limit of the operator, and an eighth of that of hosts.
LIMIT_MIB = 96
FAILURES = "---"  # probes in a row, each of which the pod's time limit ends: it is not ready, and later restarted


def flooded(
    program: Program, folder: Path, floods: Sequence[tuple[str, ...]], seconds: float, limited: bool
) -> Outcome:
    """Attack a process, one group of kinds of connections after the other, while the kubelet sends probes."""
    with program(folder, limited=limited) as attacked:
        before, answers = attacked.memory(), ""
        for kinds in floods:
            attackers = [_attacker(attacked.port, kind, seconds) for kind in kinds]
            end = time.monotonic() + seconds
            while time.monotonic() < end and not (gained := attacked.peak() - before > LIMIT_MIB):
                answers += "+" if attacked.healthy() else "-"
                time.sleep(0.5)
            for attacker in attackers if gained else ():
                attacker.kill()
            opened = [attacker.communicate()[0] for attacker in attackers]
            assert gained or all(int(count) >= FLOOD for count in opened), "the attack ran"
        growth, after = attacked.peak() - before, attacked.memory()
    print(
        f"\n{program.__name__}, limits {limited}: {FLOOD} connections of {floods} for {seconds:.0f} s each: "
        f"{before:.0f} MiB before, at most {before + growth:.0f}, {after:.0f} after; probes {answers}"
    )
    assert "+" in answers
    if growth > LIMIT_MIB:
        return Gained(f"{growth:.0f} MiB of memory")
    if FAILURES in answers:
        return Gained("a pod that is not ready")
    return Refused(f"limits of connections, time and bytes: {growth:.0f} MiB, probes {answers}")


def _attacker(port: int, kind: str, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.attackers.flood", str(port), kind, str(FLOOD), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("program", [pytest.param(served.operator, marks=pytest.mark.long), served.host])
def test_connections_that_never_end_take_neither_memory_nor_probes(program: Program, tmp_path: Path) -> None:
    kinds = [(kind,) for kind in KINDS if kind != "bodies" or program is served.host]
    assert isinstance(flooded(program, tmp_path / "limited", kinds, 2, limited=True), Refused)
    assert isinstance(flooded(program, tmp_path / "unlimited", [("headers",)], 5, limited=False), Gained)


@pytest.mark.long
@pytest.mark.parametrize("program", [served.operator, served.host])
def test_five_minutes_of_all_of_them_at_once_take_neither_memory_nor_probes(program: Program, tmp_path: Path) -> None:
    assert isinstance(flooded(program, tmp_path, [KINDS], 300, limited=True), Refused)


async def rebound(names: frozenset[str]) -> Outcome:
    """Read the status page from a page of another site, whose name the browser resolves to the page's address."""
    histories = filled_book()
    runner = LimitedRunner(make_application(lambda: histories, names))
    port = await runner.listen(0)
    try:
        async with aiohttp.ClientSession() as browser:
            url = f"http://127.0.0.1:{port}/api/consumers/{KEY}"
            async with browser.get(url, headers={"Host": f"evil.example:{port}"}) as answer:
                text = await answer.text()
                assert HEADERS.items() <= answer.headers.items()
    finally:
        await runner.cleanup()
    return Gained(text) if KEY.name in text else Refused(f"HTTP {answer.status}: {text}")


async def test_a_page_of_another_site_reads_no_status_page_by_its_own_name() -> None:
    outcome = await rebound(host_names("home", ["page.example.com"]))
    assert isinstance(outcome, Refused) and "421" in outcome.control and "statusPage.hosts" in outcome.control
    assert isinstance(await rebound(host_names("home", ["evil.example"])), Gained)
