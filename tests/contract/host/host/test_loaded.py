"""What a process loads: the probe nothing that reads or writes events, a host no client that it does not use."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "unused"),
    [
        ("eventconsumer_host.host.probe", {"pyarrow", "fastavro", "eventconsumer_host.partition.pump"}),
        ("eventconsumer_host.host.host", {"azure.eventhub", "azure.identity", "eventconsumer_audit.read"}),
    ],
)
def test_a_process_loads_nothing_that_it_does_not_use(modules: str, unused: set[str]) -> None:
    program = f"import sys, eventconsumer_tools.cli, eventconsumer_host.host.process, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert unused & set(done.stdout.split()) == set()
