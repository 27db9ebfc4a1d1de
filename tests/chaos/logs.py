"""The logs of all pods of a campaign, and the documented failure modes that explain their errors.

The logs are read from the node's folder of the kubelet, so that nothing is missed while the API server is down, and
before the kubelet removes the log of a deleted pod. An *error* is an entry above WARNING, or a line that is no JSON
entry and contains a traceback or another sign of a failure.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LEVELS = ("debug", "info", "warning", "error", "critical")
POLL_SECONDS = 1.0
HOST, OPERATOR, SPARK = "host", "operator", "spark"
_FAILURES = re.compile(r"Traceback|\bError\b|Exception|FATAL|Fatal|panic:|core dumped|OutOfMemory")


@dataclass(frozen=True)
class Entry:
    """One entry of a log.

    Attributes:
        program: HOST, OPERATOR or SPARK.
        pod: Name of the pod.
        time: As the container runtime wrote it, RFC 3339.
        level: One of LEVELS.
        message: Text without fields, such as "failed to commit a file; retrying".
        text: The whole entry.
    """

    program: str
    pod: str
    time: str
    level: str
    message: str
    text: str

    @property
    def is_error(self) -> bool:
        """Whether its level is above WARNING."""
        return self.level in ("error", "critical")


@dataclass(frozen=True)
class Known:
    """A documented failure mode that explains errors.

    Attributes:
        program: HOST, OPERATOR or SPARK.
        pattern: Found in the text of the entry.
        page: The page in docs that describes it.
    """

    program: str
    pattern: str
    page: str

    def explains(self, entry: Entry) -> bool:
        """Whether it explains an entry."""
        return entry.program == self.program and re.search(self.pattern, entry.text) is not None


# What connections say that another end, a frozen server or lost packets have ended.
_NETWORK = (
    r"[Cc]onnection (reset|refused|aborted|closed|was closed|timed out)|[Cc]onnect timed out|[Rr]ead timed out"
    r"|[Tt]imed? ?out|Timeout|No route to host|UnknownHost|Name or service not known|Temporary failure in name"
    r"|ServiceRequestError|ServiceResponseError|ConnectionError|SocketException|unreachable|Unreachable"
    r"|Connection.{0,20}(broken|dropped)|Remote end closed|IncompleteRead"
)
KNOWN = (
    # The operator: kopf repeats its watches while the API server is away.
    Known(OPERATOR, r"Request attempt #\d+/\d+ failed; will retry: GET .*watch=true", "docs/failure-modes.md"),
    # Hosts
    Known(HOST, "another host owns the partition: this host stops writing", "docs/concepts/fencing.md"),
    Known(HOST, "the drain time is over before all files were committed", "docs/failure-modes.md"),
    Known(
        HOST,
        r"the host is blocked.*(EventHubUnauthorized|EventHubUnreachable|EventHubNotFound|StorageUnauthorized"
        r"|StorageUnreachable|StorageRefused|SecretKeyMissing|ConnectionStringInvalid|ChainInUse|CheckpointStoreInUse)",
        "docs/reference/conditions.md",
    ),
    # Spark drivers: a person, storage or another attempt ended the attempt; the operator starts the next one.
    Known(SPARK, r"ClaimHeldError|ClaimLostError|the claim of batch \d+ is lost", "docs/concepts/batches.md"),
    Known(SPARK, r"SIGTERM|terminated", "docs/concepts/batches.md"),
    Known(SPARK, r"committed it first|was claimed by|lease .*(lost|broken)", "docs/concepts/batches.md"),
    Known(SPARK, _NETWORK, "docs/failure-modes.md"),
    Known(
        SPARK,
        "AuthenticationFailed|AuthorizationFailure|failed to authenticate|StorageUnauthorized|Unauthorized: cannot"
        "|AccessDenied",
        "docs/how-to/connection-strings.md",
    ),
    # Spark's own threads, after the driver has ended its session or an executor is gone.
    Known(
        SPARK,
        r"Lost executor|ExecutorLost|rejected from java\.util\.concurrent\.ThreadPoolExecutor"
        r"|SparkContext (was|has been) (shut down|stopped)|Job aborted due to stage"
        r"|Py4J(Network|Java)?Error.*(while|An error|Answer)|py4j.*Connection",
        "docs/failure-modes.md",
    ),
)


def parse(pod: str, line: str) -> Entry | None:
    """PURE: an entry of a log; None: the line is no entry and shows no failure.

    Args:
        pod: Name of the pod; selects the program.
        line: As the container runtime writes it: time, stream, F or P, text.
    """
    time, _, rest = line.partition(" ")
    text = rest.partition(" ")[2].partition(" ")[2]
    program = OPERATOR if "operator" in pod else HOST if re.search(r"-host-\d+$", pod) else SPARK
    try:
        found = json.loads(text)
        level, message = str(found["level"]).lower(), str(found["message"])
    except (ValueError, KeyError, TypeError):
        return Entry(program, pod, time, "error", text, text) if _FAILURES.search(text) else None
    return Entry(program, pod, time, level if level in LEVELS else "error", message, text)


def unexplained(entries: Iterable[Entry], known: Sequence[Known] = KNOWN) -> list[Entry]:
    """PURE: the errors that no documented failure mode explains."""
    return [entry for entry in entries if entry.is_error and not any(each.explains(entry) for each in known)]


class Logs(threading.Thread):
    """Follows the logs of all containers of some pods."""

    def __init__(self, folder: Path, namespace: str, pods: Sequence[str]) -> None:
        """Follow a folder.

        Args:
            folder: The kubelet's folder of pod logs: <namespace>_<pod>_<uid>/<container>/<restarts>.log.
            namespace: Namespace of the pods.
            pods: Beginnings of the pods' names.
        """
        super().__init__(daemon=True)
        self.errors: list[Entry] = []
        self.warnings: Counter[tuple[str, str]] = Counter()  # (program, message) -> times
        self._folder = folder
        self._starts = [f"{namespace}_{pod}" for pod in pods]
        self._files: dict[int, tuple[str, IO[str]]] = {}  # inode -> (pod, open file)
        self._rest: dict[int, str] = {}
        self._ended = threading.Event()

    def run(self) -> None:
        """Follow until `end`. Entries of before the start are left out."""
        self._open(at_end=True)
        while not self._ended.wait(POLL_SECONDS):
            self.poll()

    def end(self) -> None:
        """Read the rest, and stop."""
        self._ended.set()
        if self.is_alive():
            self.join()
        self.poll()
        with ExitStack() as files:
            for _, file in self._files.values():
                files.callback(file.close)
        self._files.clear()

    def poll(self) -> None:
        """Read new lines once."""
        self._open()
        for entry in self._entries():
            if entry.is_error:
                self.errors.append(entry)
            elif entry.level == "warning":
                self.warnings[entry.program, entry.message] += 1

    def _open(self, *, at_end: bool = False) -> None:
        for start in self._starts:
            for path in self._folder.glob(f"{start}*/*/*.log*"):
                try:
                    inode = path.stat().st_ino
                    if inode in self._files or path.suffix == ".gz":
                        continue
                    file = path.open(errors="replace")
                except OSError:  # just removed
                    continue
                if at_end:
                    file.seek(0, 2)
                self._files[inode] = (path.parent.parent.name.split("_")[1], file)

    def _entries(self) -> Iterator[Entry]:
        for inode, (pod, file) in self._files.items():
            *lines, self._rest[inode] = (self._rest.get(inode, "") + file.read()).split("\n")
            for line in lines:
                if entry := parse(pod, line):
                    yield entry
