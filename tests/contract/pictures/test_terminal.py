"""A recorded program runs in a real terminal."""

import sys
from pathlib import Path

from docs.generate.pictures import terminal


def test_a_program_sees_a_terminal_and_its_code_comes_back(tmp_path: Path):
    program = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns); sys.exit(3)"
    code, printed = terminal.record([sys.executable, "-c", program], tmp_path)
    assert (code, printed) == (3, f"True {terminal.COLUMNS}\r\n")
