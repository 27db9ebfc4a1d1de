"""`top` on a terminal: it redraws, outlives a cluster that does not answer, and ends with Ctrl-C; rates; colours."""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from eventconsumer_api.shared.console import Console
from eventconsumer_cli import output
from eventconsumer_cli.commands import top
from eventconsumer_cli.errors import ClusterError
from eventconsumer_cli.kube.kinds import POD
from eventconsumer_cli.kube.reports import HostPods
from eventconsumer_cli.output import Output, table
from eventconsumer_cli.rates import Rates, total
from eventconsumer_cli.session import Options, Session
from eventconsumer_cli.view import Look
from tests.support.terminal import Terminal
from tests.unit.cli.fakes import FakeCluster, consumer, fleet, pod, report, shop
from tests.unit.cli.running import CommandClock

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def watch(
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    *steps: Callable[[], object],
    height: int = 40,
    everything: bool = False,
) -> str:
    """Run `top` on a terminal; each step happens between two looks, and after the last Ctrl-C is pressed."""
    stream, clock = Terminal(), CommandClock()
    session = Session(Options(all_namespaces=everything), lambda _: cluster)
    session.out = Output(out=Console(file=stream, force_terminal=True, width=100, height=height))

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.steps = [*steps, interrupt]
    monkeypatch.setattr("eventconsumer_cli.commands.top.time", clock)
    top.top(session, None if everything else "orders")
    return stream.getvalue()


def test_it_redraws_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    changed = {"orders-host-1": report("orders-host-1", "2", "3", events=4_711)}
    said = watch(cluster, monkeypatch, lambda: cluster.reports.update(changed))
    assert "4711" in said and said.count("orders-host-0") >= 4  # twice, two partitions each
    assert said.endswith("\x1b[?25h\x1b[?1049l")  # the terminal is as it was


def test_it_continues_where_the_cluster_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    get = cluster.get

    def fails(*_: object) -> dict[str, object]:
        raise ClusterError("the cluster at https://x does not answer")

    steps = [lambda each=each: monkeypatch.setattr(cluster, "get", each) for each in (fails, get)]
    _, dark, light = watch(cluster, monkeypatch, *steps).split("\x1b[1morders")[1:4]
    assert "the cluster at https://x does not answer" in dark and "orders-host-1" in dark
    assert "does not answer" not in light


def test_rows_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "… 0 more" not in watch(shop(), monkeypatch, height=10)
    many = FakeCluster()
    many.put(top.EVENT_CONSUMER, consumer())
    many.put(POD, pod("orders-host-0"))
    ids = tuple(map(str, range(30)))
    measured = fleet(dict.fromkeys(ids, "orders-host-0"), partition_count=30)
    many.reports = {"orders-host-0": report("orders-host-0", *ids, fleet=measured)}
    assert "… 18 more partitions; --sort lag puts the latest first" in watch(many, monkeypatch, height=20)


def test_all_consumers_are_watched_in_the_same_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = shop()
    listed = cluster.list

    def fails(*_: object) -> list[dict[str, object]]:
        raise ClusterError("the cluster at https://x does not answer")

    for number in range(20):
        cluster.put(top.EVENT_CONSUMER, consumer(f"c{number:02}", "many"))
    steps = [lambda each=each: monkeypatch.setattr(cluster, "list", each) for each in (fails, listed)]
    said = watch(cluster, monkeypatch, *steps, height=20, everything=True)
    _, light, dark, again = said.split("\x1b[1m21 consumers")
    assert "… 9 more consumers" in light and "does not answer" not in light + again
    assert "the cluster at https://x does not answer" in dark and "c00" in dark


def test_a_number_that_nobody_knows_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    cluster.put(top.EVENT_CONSUMER, consumer(partitions={"total": 8}, lag={}))
    said = watch(cluster, monkeypatch, everything=True)
    assert "-/8" in said and "lag - events (1 unknown)" in said
    cluster.put(top.EVENT_CONSUMER, consumer("other"))
    assert "lag 1,234 events (1 unknown)" in watch(cluster, monkeypatch, everything=True)


def look(seconds: float, events: int, owner: str = "orders-host-0") -> Look:
    hosts = HostPods({owner: pod(owner)}, {owner: report(owner, "0", events=events)})
    return Look(consumer(), hosts, NOW + timedelta(seconds=seconds))


def test_rates_are_of_one_tenure_and_of_the_last_minute() -> None:
    rates = Rates()
    assert total(rates.by_partition()) is None
    rates.add(look(0, 1_000))
    assert rates.by_partition() == {}  # once seen is no rate
    rates.add(look(10, 3_000))
    assert rates.by_partition()["0"].filed == 200 and rates.by_partition()["0"].received == 200
    rates.add(look(90, 3_000))
    assert rates.by_partition()["0"].filed == 0  # what was a minute ago is over
    rates.add(look(91, 50, "orders-host-1"))
    assert "0" not in rates.by_partition()  # the new owner counts from its start


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    shown = table(["state"], [[output.Text("bad", style=output.BAD)]])
    for want, stream, no_color in ((True, Terminal(), None), (False, Terminal(), "1"), (False, io.StringIO(), None)):
        if no_color:
            monkeypatch.setenv("NO_COLOR", no_color)
        else:
            monkeypatch.delenv("NO_COLOR", raising=False)
        output.console(stream).print(shown)
        assert ("\x1b[31m" in stream.getvalue()) is want
