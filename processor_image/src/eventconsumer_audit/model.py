"""The auditor's report: one machine-readable document, and the collector of its findings.

The JSON names of `AuditReport` are a stable interface: fields may be added; a field is renamed or changes its meaning
only with another `version`. The number of findings by code and partition is limited, so that the report of a container
with a million damaged files has a bounded size; `counts` holds the exact numbers.
"""

from collections import Counter
from datetime import UTC, datetime

from pydantic import Field

from eventconsumer_api.shared.model import Report
from eventconsumer_audit.codes import MEANINGS, Code, Level

ChainKey = tuple[str, str]
"""Segment and partition."""
NOWHERE: ChainKey = ("", "")
KEPT = 20  # findings of one code in one partition; all are counted
SCHEMA_VERSION = 1
_EXIT_CODES = {Level.NOTE: 0, Level.EXPLAINED: 1, Level.VIOLATION: 2, Level.UNREADABLE: 3}
_ORDER = [
    Level.NOTE,
    Level.EXPLAINED,
    Level.UNREADABLE,
    Level.VIOLATION,
]  # a proved violation outweighs an incomplete audit


class Finding(Report):
    """One finding of the auditor."""

    level: Level
    code: Code
    invariant: str = Field(default="", description="S1 to S11; empty: none.")
    segment_id: str = ""
    partition: str = ""
    blob: str = Field(default="", description="Name of the blob concerned.")
    message: str


class GapReport(Report):
    """Events that are in no file for a recorded reason; inclusive."""

    first: int
    last: int
    reason: str


class PartitionAudit(Report):
    """One partition of one segment of the chain."""

    segment_id: str
    partition: str
    current: bool = Field(description="Whether this is the segment that is drained now.")
    start: int | None = Field(default=None, description="Where the chain starts; null: not recorded.")
    next: int | None = Field(default=None, description="Sequence number after the chain's end.")
    files: int = Field(default=0, description="Files of the chain, tombstones included.")
    tombstones: int = 0
    events: int = 0
    bytes: int = 0
    gap_events: int = Field(default=0, description="Events in recorded gaps.")
    dropped_events: int = Field(default=0, description="Events that the handler dropped, as the files count them.")
    compacted_events: int = Field(default=0, description="Sequence numbers that log compaction left without an event.")
    gaps: list[GapReport] = Field(default=[], description="The first of them.")
    highest_epoch: int | None = Field(default=None, description="Of the files.")
    checkpoint: int | None = Field(default=None, description="Sequence number; null: none.")
    owner: str | None = Field(default=None, description="Of the lease; empty: released; null: no lease.")
    epoch: int | None = Field(default=None, description="Of the lease.")
    head: int | None = Field(default=None, description="The hub's last sequence number; null: not queried.")
    lag: int | None = Field(default=None, description="Events of the hub in no file; null: the hub was not queried.")
    dead_letters: int = 0
    orphans: int = Field(default=0, description="Blobs that do not belong to the chain.")
    violations: int = 0


class BreakReport(Report):
    """Where a partition continues in a new segment, after files and hub diverged."""

    segment: int = Field(description="Number of the segment that begins.")
    since: datetime
    partition: str
    start: int = Field(description="Where it begins.")
    files_end: int = Field(description="Last sequence number in the files of the previous segment.")
    common: int = Field(description="Last sequence number at which files and hub had the same event; -1: unknown.")
    gone: int = Field(description="Sequence numbers in the files of the previous segment that name other events now.")


class BatchesAudit(Report):
    """Spark's batches."""

    manifests: int = 0
    committed: int = 0
    files: int = Field(default=0, description="Files in manifests.")
    events: int = Field(default=0, description="Events in manifests.")
    open: int | None = Field(default=None, description="The first batch without a commit record.")
    quarantined_files: int = Field(default=0, description="Files that batches excluded.")
    quarantined_rows: int = Field(default=0, description="Excluded events of other files.")


class TableAudit(Report):
    """The Delta table over the drained files."""

    version: int | None = Field(default=None, description="Newest version; null: the log cannot be read.")
    files: int = Field(default=0, description="Files in the table, also those of other programs.")
    rows: int | None = Field(default=None, description="Rows of the table; null: unknown.")
    removed: int = Field(default=0, description="Files of the consumer that were removed from the table.")
    lag_files: int = Field(default=0, description="Files of the consumer that are not in the table yet.")


class AuditReport(Report):
    """The result of an audit."""

    version: int = SCHEMA_VERSION
    verdict: Level = Field(description="Note (clean), Explained, Violation or Unreadable: the worst finding.")
    exit_code: int
    summary: str = Field(description="The verdict in words, and the remedy.")
    container: str
    prefix: str
    started_at: datetime
    seconds: float
    deep: bool = Field(description="Whether the files were read.")
    chain: str = Field(default="", description="Identity of the chain, from its record.")
    resource: str = Field(default="", description="<namespace>/<name> of the EventConsumer in that record.")
    hub: str = Field(default="", description="Namespace and name of the hub, from its record.")
    segment_id: str = Field(default="", description="The one that is drained now.")
    partitions: list[PartitionAudit] = Field(default=[])
    breaks: list[BreakReport] = Field(default=[], description="Between segments; none if the hub kept its events.")
    batches: BatchesAudit = BatchesAudit()
    table: TableAudit | None = Field(default=None, description="Null: there is no Delta table.")
    findings: list[Finding] = Field(default=[], description="Worst first; at most 20 of a code in a partition.")
    counts: dict[str, int] = Field(default={}, description="Findings by code, also those not in `findings`.")


class Findings:
    """Collects findings: keeps the first ones of each code and partition, and counts all."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[Code] = Counter()
        self._by_partition: Counter[tuple[Code, ChainKey]] = Counter()

    def add(self, code: Code, message: str, place: ChainKey = NOWHERE, *, blob: str = "", count: int = 1) -> None:
        """Add a finding that represents `count` blobs or events."""
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
                    segment_id=place[0],
                    partition=place[1],
                    blob=blob,
                    message=message,
                )
            )

    def merge(self, other: "Findings") -> None:
        """Add the findings of another collector, which kept the first ones of each code and partition too."""
        self.kept += other.kept
        self.counts += other.counts
        self._by_partition += other._by_partition

    def violations(self, place: ChainKey) -> int:
        """Violations in one partition."""
        return sum(
            number
            for (code, where), number in self._by_partition.items()
            if where == place and MEANINGS[code].level is Level.VIOLATION
        )

    @property
    def worst(self) -> Level:
        """The highest level; a violation outweighs an incomplete audit."""
        return max((MEANINGS[code].level for code in self.counts), key=_ORDER.index, default=Level.NOTE)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 explained, 2 violation, 3 unreadable."""
        return _EXIT_CODES[self.worst]

    def ordered(self) -> list[Finding]:
        """Worst first, then by partition."""
        return sorted(self.kept, key=lambda one: (-_ORDER.index(one.level), one.segment_id, one.partition))


def unreadable(message: str, container: str, prefix: str, *, deep: bool) -> AuditReport:
    """The report of an audit that could not start."""
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
