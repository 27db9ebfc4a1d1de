"""A program in a terminal, and a picture of its output."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 120, 50
_UP = re.compile(r"\x1b\[(\d*)A")
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhln]")


def record(command: Sequence[str], cwd: Path) -> tuple[int, str]:
    """Run a program in a separate terminal, and show its output meanwhile.

    Args:
        command: The command.
        cwd: Working directory.

    Returns:
        Its exit code and its output, with colours as ANSI sequences.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("CI", None)
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = bytearray()
    while chunk := _read(ours):
        printed += chunk
        sys.stdout.write(chunk.decode(errors="replace"))
        sys.stdout.flush()
    os.close(ours)
    return process.wait(), printed.decode(errors="replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the error of Linux after the last program has closed the other side
        return b""


def lines(printed: str) -> list[str]:
    """The final content of the screen, line by line, without overwritten text.

    Args:
        printed: With ANSI sequences for colours. Of cursor movements, carriage returns and lines up count.
    """
    shown: list[str] = []
    for line in printed.split("\n"):
        up = sum(int(count or 1) for count in _UP.findall(line))
        del shown[max(0, len(shown) - up) :]
        shown.append(_MOVES.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip())
    return shown


def picture(shown: Sequence[str], title: str) -> str:
    """An SVG of lines in a terminal's window.

    Args:
        shown: Lines, colours as ANSI sequences.
        title: Title of the window.
    """
    width = max(len(Text.from_ansi(line)) for line in shown)
    # The window is as wide as the console; the console's own output is discarded.
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in shown:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title=title, unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)  # external fonts
