"""Reports of batches and commit records. Pure."""

from eventconsumer_api.wire.batch import BatchCommit, BatchManifest, Quarantine
from eventconsumer_api.wire.host_report import COUNT_MAX, SECONDS_MAX, BatchReport, CommitReport

_NAMED = 3  # files named in a text
_LONGEST = 600  # characters of a cause


def count(number: int) -> int:
    """A number of a record as a count of a report.

    Programs of users, and holders of the storage key, can write any number; a report has counts of 64 bits.
    """
    return min(max(number, 0), COUNT_MAX)


def batch_report(batch: BatchManifest) -> BatchReport:
    """The report of a frozen batch."""
    return BatchReport(
        number=batch.number,
        files=len(batch.files),
        bytes=count(sum(file.size for file in batch.files)),
        events=count(sum(file.count for file in batch.files)),
        reason=batch.reason,
        created_at=batch.created_at,
        parallel=batch.parallel,
    )


def commit_report(commit: BatchCommit) -> CommitReport:
    """The report of a committed batch."""
    return CommitReport(
        number=commit.number,
        committed_at=commit.committed_at,
        application=commit.application,
        rows_read=count(commit.rows_read),
        rows_written=count(commit.rows_written),
        seconds=min(max(commit.seconds, 0.0), SECONDS_MAX),
        output_version=None if commit.output_version is None else count(commit.output_version),
        quarantined_files=count(commit.totals.quarantined_files),
        quarantined_rows=count(commit.totals.quarantined_rows),
        quarantine=quarantine_text(commit.quarantine) if commit.quarantine else "",
    )


def quarantine_text(left: Quarantine) -> str:
    """The quarantined files and events of a batch, their location and the cause; empty for none."""
    parts = []
    if left.files:
        named = [f"partition {file.partition} {file.first}-{file.last} ({file.path})" for file in left.files[:_NAMED]]
        more = [f"and {len(left.files) - _NAMED} more"] if len(left.files) > _NAMED else []
        parts.append(f"{_many(len(left.files), 'file')}: {', '.join([*named, *more])}")
    if left.rows:
        parts.append(f"{_many(left.rows, 'event')} of other files, in {left.rows_path or 'no folder that is named'}")
    if not parts:
        return ""
    cause = f": {left.message[:_LONGEST]}" if left.message else ""
    return f"batch {left.number} left out {'; '.join(parts)}{cause}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
