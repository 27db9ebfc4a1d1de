"""Programs of Microsoft's Java libraries on a consumer's hub and lease container; see java/ for the programs."""

import json
import os
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.integration.processor.hosts import Consumer
from tests.support.tls import TlsEmulator

JAVA = Path(__file__).parent / "java"
LEGACY, CURRENT = "interop.Legacy", "interop.Current"  # EventProcessorHost 3.3.0; EventProcessorClient 5.21.3


def compiled() -> str:
    """Compile the programs; the class path of Java."""
    subprocess.run(["mvn", "-B", "-q", "-f", JAVA / "pom.xml", "clean", "compile"], check=True)
    return f"{JAVA}/target/classes:{JAVA}/target/jars/*"


class JavaProcess:
    """One such process; it writes a checkpoint after each batch."""

    def __init__(self, classes: str, program: str, trust: Path, consumer: Consumer, directory: Path, name: str) -> None:
        self.name = name
        self._output, self._log_file = directory / f"{name}.jsonl", directory / f"{name}.log"
        with self._output.open("wb") as output, self._log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "java",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-Xmx256m",
                    f"-Djavax.net.ssl.trustStore={trust}",
                    "-Djavax.net.ssl.trustStorePassword=changeit",
                    "-cp",
                    classes,
                    program,
                ],
                env=os.environ
                | {
                    "NAME": name,
                    "HUB": consumer.hub_secret.read_text(),
                    "STORAGE": consumer.storage_secret.read_text(),
                    "CONTAINER": consumer.leases,
                },
                stdout=output,
                stderr=log,
            )

    @property
    def given(self) -> dict[str, list[int]]:
        """Partition -> sequence numbers of the batches it was given and checkpointed."""
        found: dict[str, list[int]] = defaultdict(list)
        for line in self._lines():
            if "numbers" in line:
                found[line["partition"]] += line["numbers"]
        return found

    def __repr__(self) -> str:
        """Errors that its handler was told, and the end of the library's log."""
        errors = [line["error"] for line in self._lines() if "error" in line]
        return f"{self.name} {errors[-10:]} {self._log_file.read_text()[-3000:]}"

    def stop(self) -> None:
        """Stop in order: it gives its partitions back."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, self

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()

    def _lines(self) -> list[dict[str, Any]]:
        text = self._output.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class TlsConsumer(Consumer):
    """A consumer whose hub is reached over TLS."""

    emulator: TlsEmulator

    def publish_numbers(self, count: int) -> None:
        """Send events to every partition; the body is the sequence number."""
        for partition, last in self.heads().items():
            bodies = [(str(last + 1 + number).encode(), {}) for number in range(count)]
            self.emulator.admin.put_events(self.hub, partition, bodies)
