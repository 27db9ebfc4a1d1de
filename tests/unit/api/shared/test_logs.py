"""The log of every program: one form, by whichever logger; readable on a terminal; without secrets."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from eventconsumer_api.shared import logs
from eventconsumer_api.shared.terminal import clean_but_styles, guarded
from tests.support.terminal import Terminal

ORDER = ["timestamp", "level", "logger", "message"]


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """The process's logging is put back."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.LIBRARIES}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_loggers_give_the_same_form() -> None:
    logs.configure(stream=(stream := io.StringIO()), namespace="shop", name="orders")
    structlog.get_logger("a.b").bind(partition="3").warning("checkpoint not written", error="no answer", name="other")
    logging.getLogger("a.b").warning("%s of %d", "one", 2)
    try:
        raise KeyError("a bug")
    except KeyError:
        structlog.get_logger("x").exception("unexpected")
    ours, theirs, failed = lines(stream)
    assert list(ours)[:4] == list(theirs)[:4] == ORDER
    assert [ours[name] for name in ORDER[1:]] == ["warning", "a.b", "checkpoint not written"]
    assert (ours["namespace"], ours["name"], ours["partition"]) == ("shop", "other", "3")
    assert [theirs[name] for name in ORDER[1:]] == ["warning", "a.b", "one of 2"]
    assert (theirs["namespace"], theirs["name"]) == ("shop", "orders")
    assert ours["timestamp"].endswith("Z")
    assert failed["level"] == "error" and "KeyError: 'a bug'" in failed["exception"]  # a traceback is one line


@pytest.mark.parametrize(("level", "shown"), [("DEBUG", "diwe"), ("INFO", "iwe"), ("WARNING", "we"), ("ERROR", "e")])
def test_levels_of_our_loggers_and_libraries_from_warning_on(level: str, shown: str) -> None:
    logs.configure(stream=io.StringIO())  # a second time replaces the first: each line comes once
    logs.configure(level, stream=(stream := io.StringIO()))
    for logger in (structlog.get_logger("x"), logging.getLogger("x")):
        for letter, method in zip("diwe", ("debug", "info", "warning", "error"), strict=True):
            getattr(logger, method)(letter)
    for name in (
        "azure.core.pipeline.policies.http_logging_policy",
        "kopf.objects",
        "aiohttp.access",
        "py4j.clientserver",
    ):
        logging.getLogger(name).info("i")
        logging.getLogger(name).warning("w")
    libraries = [] if level == "ERROR" else ["w"] * 4
    assert [line["message"] for line in lines(stream)] == [*shown, *shown, *libraries]


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_no_secret_in_text_in_fields_in_lists_in_errors_or_in_tracebacks(make: type[io.StringIO]) -> None:
    logs.configure(stream=(stream := make()))
    log = structlog.get_logger("x")
    secret = "AccountKey=c2VjcmV0;x"
    log.warning(secret, text=secret, many=[secret], deep={"a": {"b": (secret,)}}, error=ValueError(secret))
    logging.getLogger("x").warning("%s", secret)
    try:
        raise ValueError(secret)
    except ValueError:
        log.exception("unexpected")
        logging.getLogger("x").exception("unexpected")
    assert "c2VjcmV0" not in stream.getvalue()
    assert stream.getvalue().count("AccountKey=***") >= 8


def test_a_terminal_gets_readable_lines_with_colours() -> None:
    logs.configure(stream=(stream := Terminal()))
    structlog.get_logger("x").warning("a thing happened", partition="3")
    assert "a thing happened" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()
    assert not stream.getvalue().lstrip().startswith("{")


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_text_of_others_controls_no_terminal(make: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := make())
    attack = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp\u2028"
    with guarded():
        logs.configure()
        structlog.get_logger("x").warning(attack, text=attack, many=[attack], deep={attack: attack})
        logging.getLogger("x").warning("%s", attack)
        try:
            raise ValueError(attack)
        except ValueError:
            logging.getLogger("x").exception("unexpected")
    shown = stream.getvalue()
    assert shown.count("owned") >= 6 and clean_but_styles(shown) == shown
    if make is io.StringIO:
        assert lines(stream)[0]["message"] == attack  # escaped, as JSON
