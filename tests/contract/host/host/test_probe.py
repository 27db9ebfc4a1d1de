"""The probe is small: it loads nothing that reads or writes events."""

import subprocess
import sys

PROGRAM = """
import sys
import eventconsumer_host.host.probe, eventconsumer_host.host.process
print(sorted({"pyarrow", "fastavro", "eventconsumer_host.partition.pump"} & set(sys.modules)))
"""


def test_the_probe_loads_no_encoder_and_no_pump() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
