"""A process that crashes leaves no image of its memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CRASH = """
import os, resource
_, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
{}
os.abort()
"""
FORBID = "from eventconsumer_api.shared.coredumps import forbid_core_dumps; forbid_core_dumps()"


def dumps(statement: str, folder: Path) -> bool:
    """Whether the kernel dumps the memory of a process that executes `statement` and then aborts."""
    crashing = subprocess.Popen([sys.executable, "-c", CRASH.format(statement)], cwd=folder)
    _, status = os.waitpid(crashing.pid, 0)
    crashing.returncode = os.waitstatus_to_exitcode(status)
    assert os.WIFSIGNALED(status)
    return os.WCOREDUMP(status)


def test_no_process_that_forbids_it_is_dumped(tmp_path: Path) -> None:
    if not dumps("", tmp_path):
        pytest.skip("this machine forbids core dumps")
    assert not dumps(FORBID, tmp_path)
    assert not dumps(f"{FORBID}; {FORBID}", tmp_path)  # as a child of a process that forbids it
    assert not dumps(f"resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); {FORBID}", tmp_path)


@pytest.mark.parametrize(
    "program",
    [
        "from eventconsumer_tools.cli import main; main(['--help'])",
        "import sys; sys.argv = ['operator', '--help']; from eventconsumer_operator.__main__ import main; main()",
    ],
    ids=["host", "operator"],
)
def test_programs_with_keys_forbid_it(program: str) -> None:
    ask = "import atexit, resource; atexit.register(lambda: print(resource.getrlimit(resource.RLIMIT_CORE)))"
    seen = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -S -c "$(ulimit -H -c)" && exec "$@"',
            "bash",
            sys.executable,
            "-c",
            f"{ask}; {program}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] in {"(1, 1)", "(0, 0)"}
