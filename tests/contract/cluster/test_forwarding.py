"""The kernel's forwarding with a cluster and after it was killed, in a network namespace of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

SWITCH = "/proc/sys/net/ipv4/ip_forward"
SET_UP = """
from pathlib import Path
from local_cluster.forwarding import Forwarding
from local_cluster.layout import Layout, Network
from local_cluster.network import set_up
layout = Layout(Path("."), Path("."))
set_up(Network(), Forwarding(layout.forwarding))
"""
SWEEP = """
from pathlib import Path
from local_cluster import network, sweep
from local_cluster.layout import Layout, Network
sweep.kill_processes = lambda *_: 0  # those of the machine, and cgroups, are no part of the namespace
sweep.remove_cgroups = lambda: None
sweep.sweep(Layout(Path("."), Path(".")), Network(), [])
"""


@pytest.mark.parametrize("before", ["0", "1"])
def test_a_killed_cluster_leaves_forwarding_as_it_was(before: str, tmp_path: Path) -> None:
    script = """
        echo "$1" > "$2" && "$3" -c "$4" && cat "$2"   # the process has ended: as after a kill, only files remain
        "$3" -c "$5" && cat "$2"
    """
    arguments = ["sh", "-c", script, "sh", before, SWITCH, sys.executable, SET_UP, SWEEP]
    seen = subprocess.run(["unshare", "--net", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert seen.stdout.split() == ["1", before]
    assert list(tmp_path.iterdir()) == []
