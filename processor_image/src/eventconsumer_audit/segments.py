"""PURE: checks that each segment of a chain continues the previous one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.model import BreakReport, ChainKey, Findings


def judge(
    segments: Sequence[SegmentRecord], chains: Mapping[ChainKey, ChainAudit], findings: Findings, *, writes_files: bool
) -> None:
    """Check that each segment was sealed at the position in the record of the next one, before that one began.

    Args:
        segments: In order.
        chains: Of all of them, after all files.
        findings: Collects findings.
        writes_files: False if a handler replaces the files: then the checkpoints are the ends of segments.
    """
    for before, after in pairwise(segments):
        for partition, each in after.breaks.items():
            place = (before.segment_id, partition)
            old, new = chains.get(place), chains.get((after.segment_id, partition))
            end = each.files_end.sequence_number
            subject = f"segment {after.number} of partition {partition}"
            if old is None or old.seal is None:
                findings.add(Code.SEGMENT_WRONG, f"{subject} began, but the previous segment has no seal", place)
            elif writes_files and (old.next, old.seal) != (end + 1, end + 1):
                files_end = None if old.next is None else old.next - 1
                text = f"{subject} records {end} as the end of the previous segment, but its files end at {files_end} "
                findings.add(Code.SEGMENT_WRONG, f"{text}and its seal is at {old.seal}", place)
            if new is not None and new.start is not None and new.start != each.start:
                text = f"{subject} starts at {each.start}, but its genesis record contains {new.start}"
                findings.add(Code.SEGMENT_WRONG, text, (after.segment_id, partition))
    if segments:
        for place, chain in chains.items():
            if place[0] == segments[-1].segment_id and chain.seal is not None:
                text = f"the segment was sealed at {chain.seal}, but no later segment exists"
                findings.add(Code.SEGMENT_UNFINISHED, text, place)


def unbatched(
    segments: Sequence[SegmentRecord], chains: Mapping[ChainKey, ChainAudit], reached: Mapping[ChainKey, int]
) -> Iterator[tuple[ChainKey, str]]:
    """Files of a segment that are in no batch, although batches of a later segment were frozen.

    Args:
        segments: In order.
        chains: Of all of them.
        reached: The position after the last batch of each.
    """
    names = [segment.segment_id for segment in segments]
    newest = max((names.index(era) for era, _ in reached if era in names), default=-1)
    for place, chain in chains.items():
        if place[0] in names[: max(newest, 0)] and chain.files and chain.next != reached.get(place, chain.start):
            yield place, f"batches of a later segment were frozen, but files up to {(chain.next or 0) - 1} are in none"


def breaks(segments: Sequence[SegmentRecord]) -> list[BreakReport]:
    """The breaks between segments, for the report."""
    return [
        BreakReport(
            segment=segment.number,
            since=segment.since,
            partition=partition,
            start=each.start,
            files_end=each.files_end.sequence_number,
            common=each.common,
            gone=0 if each.repositioned else max(0, each.files_end.sequence_number - each.start + 1),
        )
        for segment in segments
        for partition, each in sorted(segment.breaks.items(), key=lambda item: (len(item[0]), item[0]))
    ]
