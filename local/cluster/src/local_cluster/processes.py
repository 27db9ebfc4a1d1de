"""Start the cluster's processes, record them, and stop exactly these processes.

Invariant: a record is written before the wait for the process, and is used only if pid, start time and boot match.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from local_cluster import procfs
from local_cluster.components import Component
from local_cluster.errors import LeftoverStuck, NotReady
from local_cluster.probes import Prober
from local_cluster.procfs import Identity
from local_cluster.shell import telling_lines

_LOG_EXCERPT_BYTES = 64 * 1024


@dataclass(frozen=True)
class Record:
    """A process that was started for the cluster.

    Attributes:
        name: Name of the component.
        pid: Its process id.
        started: Its start time in clock ticks since boot.
        boot: Id of the boot in which it was started.
    """

    name: str
    pid: int
    started: int
    boot: str

    @property
    def identity(self) -> Identity:
        """Which process."""
        return Identity(self.pid, self.started)

    def to_json(self) -> str:
        """The record as the content of its file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Record | None":
        """Read a record; None if the file was cut off by a crash."""
        try:
            fields = json.loads(text)
            return cls(str(fields["name"]), int(fields["pid"]), int(fields["started"]), str(fields["boot"]))
        except (ValueError, KeyError, TypeError):
            return None


class ProcessTable:
    """The records of one cluster."""

    def __init__(self, records: Path, logs: Path, prober: Prober) -> None:
        """Use these folders.

        Args:
            records: One JSON file a process.
            logs: One log file a process.
            prober: Checks whether a component is ready.
        """
        self._records = records
        self._logs = logs
        self._prober = prober
        self._boot = procfs.boot_id()

    def recorded(self) -> dict[str, Record]:
        """All readable records by component name, whether the process lives or not."""
        found = (Record.from_json(path.read_text()) for path in sorted(self._records.glob("*.json")))
        return {record.name: record for record in found if record is not None}

    def alive(self) -> dict[str, Record]:
        """The records whose process is still running."""
        return {
            name: record
            for name, record in self.recorded().items()
            if record.boot == self._boot and procfs.is_alive(record.identity)
        }

    def log(self, name: str) -> Path:
        """The log of a component."""
        return self._logs / f"{name}.log"

    def start(self, component: Component, env: Mapping[str, str]) -> None:
        """Start a component in a session of its own, so that it outlives this command.

        Args:
            component: The component to start.
            env: Its complete environment.
        """
        for folder in (self._records, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        with self.log(component.name).open("ab") as log:
            child = subprocess.Popen(
                component.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=env,
                start_new_session=True,
            )
        seen = procfs.observe(child.pid)
        if seen is None:  # cannot be: an unreaped child keeps its entry
            raise NotReady(
                component.name, "vanished at its start", self._excerpt(component.name), self.log(component.name)
            )
        record = Record(component.name, child.pid, seen.identity.started, self._boot)
        path = self._records / f"{component.name}.json"
        path.with_suffix(".new").write_text(record.to_json())
        path.with_suffix(".new").rename(path)
        child.returncode = 0  # the child is meant to outlive us; tell Popen not to warn about that

    def wait_ready(self, component: Component) -> None:
        """Wait until a started component is ready.

        Raises:
            NotReady: It ended, or did not become ready in time.
        """
        deadline = time.monotonic() + component.patience
        while not self._prober.is_ready(component.probe):
            record = self.recorded().get(component.name)
            if record is None or not procfs.is_alive(record.identity):
                raise self._not_ready(component, "ended right after its start")
            if time.monotonic() > deadline:
                raise self._not_ready(component, f"was not ready after {component.patience:.0f} s")
            time.sleep(0.1)

    def is_ready(self, component: Component) -> bool:
        """Whether a component's probe succeeds now."""
        return self._prober.is_ready(component.probe)

    def stop(self, name: str, patience: float = 10.0) -> None:
        """End a component if it runs, and remove its record.

        Args:
            name: Name of the component.
            patience: Seconds until it is killed.

        Raises:
            LeftoverStuck: It survived SIGKILL.
        """
        record = self.recorded().get(name)
        if record is not None and record.boot == self._boot and not procfs.end(record.identity, patience):
            raise LeftoverStuck(
                f"{name} (pid {record.pid}) survives SIGKILL: it hangs in the kernel, see /proc/{record.pid}/stack. "
                "A restart of the machine frees it."
            )
        (self._records / f"{name}.json").unlink(missing_ok=True)

    def _not_ready(self, component: Component, reason: str) -> NotReady:
        return NotReady(component.name, reason, self._excerpt(component.name), self.log(component.name))

    def _excerpt(self, name: str) -> str:
        try:
            content = self.log(name).read_bytes()[-_LOG_EXCERPT_BYTES:]
        except FileNotFoundError:
            return ""
        return telling_lines(content.decode(errors="replace"))
