"""PURE: the verdict in words: result, worst finding and remedy."""

from eventconsumer_audit.codes import MEANINGS, Level
from eventconsumer_audit.model import AuditReport


def summary(report: AuditReport) -> str:
    """One or two sentences."""
    events = sum(partition.events for partition in report.partitions)
    files = sum(partition.files for partition in report.partitions)
    size = f"{_many(len(report.partitions), 'partition')}, {_many(files, 'file')}, {_many(events, 'event')}"
    if report.table and report.table.version is not None:
        size += f", version {report.table.version:,} of the Delta table"
    depth = "files read" if report.deep else "files not read: use --deep to read them"
    if report.verdict is Level.NOTE:
        return f"Clean: each event is in exactly one file ({size}; {depth})."
    worst = next(finding for finding in report.findings if finding.level is report.verdict)
    place = f" in partition {worst.partition}" if worst.partition else ""
    first = f"{worst.code}{place}: {worst.message}. Remedy: {MEANINGS[worst.code].remedy}."
    if report.verdict is Level.EXPLAINED:
        gaps = sum(partition.gap_events for partition in report.partitions)
        lost = f"; {_many(gaps, 'event')} in recorded gaps" if gaps else ""
        return f"Explained: no violation ({size}{lost}; {depth}). {first}"
    if report.verdict is Level.UNREADABLE:
        return f"Unreadable: the audit is not complete. {worst.message}"
    count = sum(number for code, number in report.counts.items() if _is_violation(code))
    return f"VIOLATION: {_many(count, 'violation')} ({size}; {depth}). First: {first}"


def _is_violation(code: str) -> bool:
    return any(meaning.level is Level.VIOLATION for key, meaning in MEANINGS.items() if key == code)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
