"""`python -m tests.bench.spark_streaming`: Spark Structured Streaming reads the hub itself, into a Delta table.

The connector `com.microsoft.azure:azure-eventhubs-spark_2.12:2.3.22` needs Spark 3, so an installation of its own runs
it, which the options name:

    --python  of a virtual environment with pyspark 3.5
    --jars    a folder with the connector, `io.delta:delta-spark_2.12:3.3.2` and what both need, such as `mvn
              dependency:copy-dependencies` makes

A backlog of events of 1 KB is in four partitions, as in `drain`. The first hub warms the JVM up. The table is in a
local folder, without requests to a storage account, which is in favour of Spark. Beside it: `python -m
tests.bench.table`.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.drain import PARTITIONS, SIZES
from tests.bench.hubs import fill
from tests.bench.machine import CLIENT_CORE, SERVER_CORE, on_core
from tests.support.tls import TlsEmulator

CLIENT = Path(__file__).with_name("spark_streaming_client.py")
# Spark has these in versions of its own.
SHIPPED = (
    "activation",
    "antlr",
    "commons-",
    "gson",
    "guava",
    "hadoop",
    "http",
    "jackson",
    "jetty",
    "joda",
    "scala-library",
    "slf4j",
    "wildfly",
)
WARM_UP = 100_000  # events


def main() -> None:
    """Print what Spark takes for each event."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark_streaming", description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--backlog", type=int, default=300_000, help="events of 1 KB [300,000]")
    parser.add_argument("--rounds", type=int, default=2, help="hubs after the first one [2]")
    options = parser.parse_args()
    jars = [str(jar) for jar in options.jars.glob("*.jar") if not jar.name.startswith(SHIPPED)]
    with TemporaryDirectory() as name:
        emulator = TlsEmulator(Path(name) / "hub", "--quiet", "--retention-mib=2048", "--retention-events=20000000")
        with on_core(SERVER_CORE):
            emulator.start()
        try:
            sizes = [WARM_UP, *[options.backlog] * options.rounds]
            hubs = [
                (f"h{each}", fill(emulator, f"h{each}", SIZES["1k"][0], size, PARTITIONS))
                for each, size in enumerate(sizes)
            ]
            settings = {
                "endpoint": emulator.connection_string(),
                "trust": str(_trust(emulator)),
                "hubs": hubs,
                "jars": jars,
                "folder": name,
            }
            kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "SPARK_HOME"}}
            environment = kept | {"SPARK_STREAMING": json.dumps(settings), "PYSPARK_PYTHON": str(options.python)}
            with on_core(CLIENT_CORE):
                command = [str(options.python), "-P", str(CLIENT)]  # -P: not the modules beside it
                done = subprocess.run(command, env=environment, cwd=name, stdout=subprocess.PIPE, check=True)
        finally:
            emulator.close()
    for line, (_, count) in zip(done.stdout.splitlines(), hubs, strict=True):
        found = json.loads(line)
        print(
            f"{count:,} events: {1e6 * found['cpu'] / count:.1f} us of CPU an event, {count / found['seconds']:,.0f} "
            f"events a second; the process so far: {found['total_cpu']:.0f} s of CPU"
        )


def _trust(emulator: TlsEmulator) -> Path:
    """A trust store of Java with the emulator's certificate."""
    store = emulator.certificate.with_name("trust.p12")
    options = ["-noprompt", "-storepass", "changeit", "-storetype", "PKCS12"]
    command = ["keytool", "-importcert", "-file", str(emulator.certificate), "-keystore", str(store), *options]
    subprocess.run(command, check=True, capture_output=True)
    return store


if __name__ == "__main__":
    main()
