"""The demo's cluster for the end-to-end suite: the demo is the set-up, and the first test checks its result."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventconsumer_demo.cluster import Cluster

ROOT = Path(__file__).parents[2]
EVENTS = 20_000
NAMESPACE = "eventconsumer-demo"


def _python(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT
    )


def image(name: str) -> str:
    """Reference of one of the project's images."""
    found: dict[str, str] = json.loads(_python("local_cluster", "images", name, timeout=60).stdout)
    return found[name]


def handler_image() -> str:
    """Reference of the example of a handler, which is built on request."""
    built = _python("local_cluster", "build", "handler", timeout=600)
    assert built.returncode == 0, built.stderr
    return image("handler")


@dataclass(frozen=True)
class Demo:
    """The finished demo: its output, and its running cluster."""

    exit_code: int
    output: str
    cluster: Cluster


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """`make demo` with fewer events; the cluster is removed at the end unless it ran before."""
    ran_before = _python("local_cluster", "status", timeout=60).returncode == 0
    result = _python("eventconsumer_demo", "up", "--events", str(EVENTS), timeout=3000)
    print(result.stdout, result.stderr, sep="\n")
    path = _python("local_cluster", "path", timeout=60).stdout.strip()
    kubeconfig = Path(_python("local_cluster", "kubeconfig", timeout=60).stdout.strip())
    yield Demo(result.returncode, result.stdout + result.stderr, Cluster(NAMESPACE, path=path, kubeconfig=kubeconfig))
    if not ran_before:
        down = _python("eventconsumer_demo", "down", timeout=600)
        assert down.returncode == 0, down.stdout + down.stderr
