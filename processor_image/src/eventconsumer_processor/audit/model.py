"""The auditor's report: one machine-readable document, and the findings while they are collected.

The JSON names of `AuditReport` are a stable interface: fields may be added, none is renamed or changes its meaning
without another `version`. Findings are capped by code and partition, so that a container with a million damaged files
still gives a report of bounded size; `counts` holds the true numbers.
"""

from collections import Counter
from datetime import UTC, datetime

from pydantic import Field

from eventconsumer_api.model import Report
from eventconsumer_processor.audit.codes import MEANINGS, Code, Level

Place = tuple[str, str]
"""Incarnation and partition."""
NOWHERE: Place = ("", "")
KEPT = 20  # findings of one code in one partition; all are counted
SCHEMA_VERSION = 1
_EXIT_CODES = {Level.NOTE: 0, Level.EXPLAINED: 1, Level.VIOLATION: 2, Level.UNREADABLE: 3}
_ORDER = [Level.NOTE, Level.EXPLAINED, Level.UNREADABLE, Level.VIOLATION]  # what is proved outweighs what is not known


class Finding(Report):
    """One thing that the auditor found."""

    level: Level
    code: Code
    invariant: str = Field(default="", description="S1 to S9; empty where no invariant is concerned.")
    incarnation: str = ""
    partition: str = ""
    blob: str = Field(default="", description="Name of the blob concerned.")
    message: str


class GapReport(Report):
    """Events that the hub no longer had when they were to be read; inclusive."""

    first: int
    last: int
    reason: str


class PartitionAudit(Report):
    """One partition of one incarnation of the hub."""

    incarnation: str
    partition: str
    current: bool = Field(description="Whether this is the incarnation that is drained now.")
    start: int | None = Field(default=None, description="Where the chain starts; null where that is not recorded.")
    next: int | None = Field(default=None, description="Sequence number behind the chain's end.")
    files: int = Field(default=0, description="Files of the chain, tombstones included.")
    tombstones: int = 0
    events: int = 0
    bytes: int = 0
    gap_events: int = Field(default=0, description="Events in recorded gaps.")
    compacted_events: int = Field(default=0, description="Sequence numbers that log compaction left without an event.")
    gaps: list[GapReport] = Field(default=[], description="The first of them.")
    highest_epoch: int | None = Field(default=None, description="Of the files.")
    checkpoint: int | None = Field(default=None, description="Sequence number; null where there is none.")
    owner: str | None = Field(default=None, description="Of the lease; empty: released; null: no lease.")
    epoch: int | None = Field(default=None, description="Of the lease.")
    head: int | None = Field(default=None, description="The hub's last sequence number, where the hub was asked.")
    lag: int | None = Field(default=None, description="Events of the hub in no file, where the hub was asked.")
    dead_letters: int = 0
    orphans: int = Field(default=0, description="Blobs that do not belong to the chain.")
    violations: int = 0


class BreakReport(Report):
    """How a partition went from one segment to the next, where files and hub had parted."""

    segment: int = Field(description="Number of the segment that begins.")
    since: datetime
    partition: str
    start: int = Field(description="Where it begins.")
    files_end: int = Field(description="Last sequence number in the files of the segment before.")
    common: int = Field(
        description="Last sequence number at which files and hub had the same event; -1: none is known."
    )
    gone: int = Field(description="Sequence numbers in the files of the segment before that name other events now.")


class BatchesAudit(Report):
    """Spark's batches."""

    manifests: int = 0
    committed: int = 0
    files: int = Field(default=0, description="Files in manifests.")
    events: int = Field(default=0, description="Events in manifests.")
    open: int | None = Field(default=None, description="The batch that has no commit record yet.")
    quarantined_files: int = Field(default=0, description="Files that their batches left out.")
    quarantined_rows: int = Field(default=0, description="Events of other files that were left out.")


class AuditReport(Report):
    """What an audit found."""

    version: int = SCHEMA_VERSION
    verdict: Level = Field(description="Note (clean), Explained, Violation or Unreadable: the worst finding.")
    exit_code: int
    summary: str = Field(description="The verdict in words, and what to do.")
    container: str
    prefix: str
    started_at: datetime
    seconds: float
    deep: bool = Field(description="Whether the files were read.")
    chain: str = Field(default="", description="Identity of the chain, from its record.")
    resource: str = Field(default="", description="<namespace>/<name> of the EventConsumer in that record.")
    hub: str = Field(default="", description="Namespace and name of the hub, from its record.")
    incarnation: str = Field(default="", description="The one that is drained now.")
    partitions: list[PartitionAudit] = Field(default=[])
    breaks: list[BreakReport] = Field(default=[], description="Between segments; none where the hub kept its events.")
    batches: BatchesAudit = BatchesAudit()
    findings: list[Finding] = Field(default=[], description="Worst first; at most 20 of a code in a partition.")
    counts: dict[str, int] = Field(default={}, description="Findings by code, also those not in `findings`.")


class Findings:
    """Collects findings; keeps the first of each code and partition, counts all."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[Code] = Counter()
        self._by_partition: Counter[tuple[Code, Place]] = Counter()

    def add(self, code: Code, message: str, place: Place = NOWHERE, *, blob: str = "", count: int = 1) -> None:
        """Note a finding that stands for `count` things."""
        self.counts[code] += count
        key = (code, place)
        self._by_partition[key] += count
        if self._by_partition[key] - count < KEPT:
            meaning = MEANINGS[code]
            self.kept.append(
                Finding(
                    level=meaning.level,
                    code=code,
                    invariant=meaning.invariant,
                    incarnation=place[0],
                    partition=place[1],
                    blob=blob,
                    message=message,
                )
            )

    def violations(self, place: Place) -> int:
        """Violations in one partition."""
        return sum(
            number
            for (code, where), number in self._by_partition.items()
            if where == place and MEANINGS[code].level is Level.VIOLATION
        )

    @property
    def worst(self) -> Level:
        """The level that decides; a violation outweighs a part that could not be read."""
        return max((MEANINGS[code].level for code in self.counts), key=_ORDER.index, default=Level.NOTE)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 explained, 2 violation, 3 unreadable."""
        return _EXIT_CODES[self.worst]

    def ordered(self) -> list[Finding]:
        """Worst first, then by partition."""
        return sorted(self.kept, key=lambda one: (-_ORDER.index(one.level), one.incarnation, one.partition))


def unreadable(message: str, container: str, prefix: str, *, deep: bool) -> AuditReport:
    """The report where nothing could be read."""
    findings = Findings()
    findings.add(Code.UNREADABLE, message)
    return AuditReport(
        verdict=findings.worst,
        exit_code=findings.exit_code,
        summary=f"Unreadable: {message}",
        container=container,
        prefix=prefix,
        started_at=datetime.now(UTC),
        seconds=0,
        deep=deep,
        findings=findings.ordered(),
        counts={Code.UNREADABLE: 1},
    )
