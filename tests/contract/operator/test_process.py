"""How the operator's process ends where it cannot work: one entry in the log with cause and remedy, and exit code 1."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.nowhere import NOWHERE

COMMAND = [sys.executable, "-m", "eventconsumer_operator", "--processor-image=p", "--spark-image=s", "--namespace=x"]


def ended(kubeconfig: Path, *arguments: str) -> str:
    """What the only entry says of why it ended."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=inherited | {"KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    (found,) = [entry for entry in entries if entry["level"] == "error"]
    return str(found["error"])


def test_without_a_cluster(tmp_path: Path) -> None:
    assert "set KUBECONFIG" in ended(tmp_path / "none")


def test_with_a_port_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(json.dumps(NOWHERE))
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        told = ended(tmp_path / "config", f"--health-port={port}")
    assert f"cannot listen on --health-port {port}" in told
    assert "set a free port" in told
