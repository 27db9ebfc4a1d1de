"""Text of others on a terminal: replaced by all ways on which a program can print, and by nothing else."""

import io
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.terminal import Guard, clean, clean_but_styles, clean_line, guarded
from tests.support.terminal import Terminal

ATTACK = "\x1b[2J\x1b]0;owned\x07\x9b31m\x1b[8m\u202egnp\u2066\u2028\u200f\x7f\ud800"
CLEAN = clean(ATTACK)
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\u202e\u2066\r\n\t\x7f")))
def test_only_characters_that_print_remain_and_the_length_is_the_same(text: str) -> None:
    shown = clean(text)
    assert len(shown) == len(text)
    assert not {unicodedata.category(each) for each in shown if each not in "\n\t"} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(each) for each in shown} & BIDIRECTIONAL
    assert all(after in {before, "\ufffd"} for before, after in zip(text, shown, strict=True))
    assert clean(shown) == shown
    assert "\n" not in clean_line(text) and "\t" not in clean_line(text)


@pytest.mark.parametrize("text", ["Grüße, 世界, مرحبا, שלום, 👩‍💻", "a\tb\nc", "x" * 99, ""])
def test_other_text_stays(text: str) -> None:
    assert clean(text) == clean_but_styles(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[mplain", "\x1b[mplain"),
        ("\x1b[8mhidden", "\ufffd[8mhidden"),  # concealed
        ("\x1b[30mblack", "\ufffd[30mblack"),  # as a background
        ("\x1b[41mred", "\ufffd[41mred"),
        ("\x1b[38;5;0mblack", "\ufffd[38;5;0mblack"),
        ("\x1b[5mblinks", "\ufffd[5mblinks"),
        ("\x1b[1;8mhidden", "\ufffd[1;8mhidden"),
        ("\x1b[2J", "\ufffd[2J"),
        ("\x1b[1\x1b[1m", "\ufffd[1\x1b[1m"),
    ],
)
def test_styles_that_hide_nothing_remain(text: str, shown: str) -> None:
    assert clean_but_styles(text) == shown


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_no_way_of_printing_leads_around_the_guard(monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]) -> None:
    out, err = stream(), stream()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("NO_COLOR", "1")
    with guarded():
        print(ATTACK)
        sys.stdout.write(ATTACK)
        sys.stderr.writelines([ATTACK, ATTACK])
        console = Console()
        console.print(ATTACK, Text(ATTACK), f"[blink]{ATTACK}[/]")
        console.out(ATTACK)
        table = Table(ATTACK, title=ATTACK)
        table.add_row(ATTACK)
        Console(stderr=True).print(table)
        assert not hasattr(sys.stdout, "buffer") and not hasattr(sys.stderr, "buffer")
        assert isinstance(sys.stdout, Guard)
    assert [sys.stdout, sys.stderr] == [out, err]
    for shown in (out.getvalue(), err.getvalue()):
        assert clean_but_styles(shown) == shown and shown.count("owned") >= 3
    assert "[blink]" in out.getvalue()  # text is no markup


def test_progress_of_our_own_moves_the_cursor_and_shows_clean_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    with guarded(), Live(ATTACK + "\nsecond", console=Console(), auto_refresh=False) as live:
        live.update(ATTACK + "\nthird", refresh=True)
        print(ATTACK)
    shown = out.getvalue()
    assert "\x1b[1A\x1b[2K" in shown  # the line before is replaced
    assert "\x1b]0;" not in shown and "\x1b[2J" not in shown and "\u202e" not in shown and "\x9b" not in shown
    assert CLEAN.replace("\x07", "")[:3] in shown


def test_a_table_loses_no_text_by_what_is_replaced() -> None:
    table = Table("name", "next", box=None)
    table.add_row(ATTACK, "end")
    console = Console(file=io.StringIO(), width=400)
    console.print(table)
    assert CLEAN.replace("\ufffd", "") in console.file.getvalue().replace("\ufffd", "")  # type: ignore[attr-defined]
    assert "end" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_closed_output_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with guarded():
        sys.stdout = None
    assert sys.stdout is None


@pytest.mark.parametrize(
    "end", ["raise ValueError(attack)", "raise SystemExit(attack)", "print(attack, file=sys.stderr)"]
)
def test_an_error_that_ends_the_program_is_shown_clean(end: str) -> None:
    program = f"""
import sys
from eventconsumer_api.shared.terminal import guarded
attack = "\\x1b[2J\\u202eowned"
@guarded()
def main() -> None:
    {end}
main()
"""
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "owned" in seen.stderr and clean(seen.stderr) == seen.stderr
