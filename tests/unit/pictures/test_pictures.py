"""The pictures' parts: terminal output, queries and their results, the pods that are scraped."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate.pictures import dashboard, targets, terminal
from docs.generate.pictures.__main__ import demo_picture
from docs.generate.pictures.dashboard import Panel, Series


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("1 of 2\r2 of 2\r\n", ["2 of 2", ""]),
        ("a\r\n| step\r\n\x1b[?25h\x1b[1A\x1b[2Kstep 0.1 s\r\n", ["a", "step 0.1 s", ""]),
        ("\x1b[?25l\x1b[2K\x1b[32mdone\x1b[0m\r\n", ["\x1b[32mdone\x1b[0m", ""]),
    ],
)
def test_lines_are_the_final_content_of_the_terminal(printed: str, shown: list[str]):
    assert terminal.lines(printed) == shown


def test_the_picture_of_a_terminal_holds_its_words_and_loads_nothing():
    svg = terminal.picture(["$ make demo", "\x1b[32mEvery one of 3 events\x1b[0m <is> there"], "make demo")
    text = "".join(ElementTree.fromstring(svg).itertext()).replace("\xa0", " ")
    assert "Every one of 3 events" in text
    assert "<is> there" in text
    assert "url(http" not in svg


def test_the_picture_of_the_demo_begins_with_the_events_and_names_no_folder():
    steps = [
        "[5/10] An empty hub",
        "[6/10] A publisher of 9 events",
        "Clean",
        "",
        "Finished in 9 s. Look:",
        "PATH=/root/x",
    ]
    text = "".join(ElementTree.fromstring(demo_picture("\r\n".join(steps))).itertext()).replace("\xa0", " ")
    assert "A publisher of 9 events" in text and "Clean" in text
    assert "empty hub" not in text and "/root" not in text


def test_the_chart_s_panels_are_filled_in_and_do_not_overlap():
    found = dashboard.panels({"namespace": ".*", "consumer": "orders"})
    assert found
    taken: set[tuple[int, int]] = set()
    for panel in found:
        assert all("$" not in query for query, _ in panel.queries), panel.title
        x, y, width, height = panel.place
        cells = {(x + right, y + down) for right in range(width) for down in range(height)}
        assert not cells & taken, panel.title
        assert x + width <= dashboard.COLUMNS
        taken |= cells


def test_an_answer_becomes_lines_named_by_the_legend():
    answer = {
        "result": [
            {"metric": {"name": "orders"}, "values": [[100, "1"], [101, "NaN"], [102, "3"]]},
            {"metric": {"name": "audit"}, "values": [[100, "2"]]},
            {"metric": {"name": "empty"}, "values": [[100, "NaN"]]},
        ]
    }
    assert dashboard.series(answer, "{{name}} wanted", 90) == [
        Series("audit wanted", [(10, 2.0)]),
        Series("orders wanted", [(10, 1.0), (12, 3.0)]),
    ]


@given(st.floats(0, 1e13), st.sampled_from(["s", "bytes", "ops", "short", "Bps", "none"]))
def test_ticks_are_short(value: float, unit: str):
    assert len(dashboard._formatter(unit)(value, 0)) <= 16


def test_a_dashboard_with_and_without_answers_is_drawn(tmp_path: Path):
    state = Panel("Ready", "stat", (0, 0, 12, 4), "none", [], {"1": ("Ready", "#56a64b")})
    lag = Panel("Lag", "timeseries", (12, 0, 12, 8), "s", [], {})
    file = tmp_path / "dashboard.png"
    dashboard.draw(
        [(state, [Series("orders", [(0, 0.0), (1, 1.0)])]), (lag, []), (lag, [Series("a", [(0, 0.0)])])], file
    )
    assert file.read_bytes().startswith(b"\x89PNG")


def pod(component: str, phase: str = "Running", address: str | None = "10.0.0.7", **labels: str) -> dict:
    return {
        "metadata": {
            "name": f"some-{component}",
            "namespace": "shop",
            "labels": {"app.kubernetes.io/component": component} | labels,
        },
        "status": {"phase": phase} | ({"podIP": address} if address else {}),
    }


def test_running_hosts_and_operators_are_scraped_with_the_chart_s_labels():
    consumer = {"eventconsumer.io/consumer": "orders"}
    pods = [pod("host", **consumer), pod("operator"), pod("host", "Pending", None), pod("host", "Failed"), pod("spark")]
    assert targets.groups(pods) == [
        {
            "targets": ["10.0.0.7:8080"],
            "labels": {
                "job": "host",
                "eventconsumer_io_consumer": "orders",
                "namespace": "shop",
                "pod": "some-host",
            },
        },
        {"targets": ["10.0.0.7:8081"], "labels": {"job": "operator"}},
    ]
