"""PURE: judges how one segment of a chain follows the other."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eventconsumer_api.identity import HubSegment
from eventconsumer_processor.audit.chain import ChainAudit
from eventconsumer_processor.audit.codes import Code
from eventconsumer_processor.audit.model import BreakReport, Findings, Place


def judge(
    segments: Sequence[HubSegment], chains: Mapping[Place, ChainAudit], findings: Findings, *, writes_files: bool
) -> None:
    """Judge that each segment was ended where the record of the next one says, before that one began.

    Args:
        segments: In order.
        chains: Of all of them, once all files went by.
        findings: Collects what is wrong.
        writes_files: False where a handler replaces the files: checkpoints then say how far a segment goes.
    """
    for before, after in pairwise(segments):
        for partition, each in after.breaks.items():
            place = (before.incarnation, partition)
            old, new = chains.get(place), chains.get((after.incarnation, partition))
            end = each.files_end.sequence_number
            what = f"segment {after.number} of partition {partition}"
            if old is None or old.seal is None:
                findings.add(Code.SEGMENT_WRONG, f"{what} began, but the one before was not ended", place)
            elif writes_files and (old.next, old.seal) != (end + 1, end + 1):
                text = (
                    f"{what} says that the files before end at {end}; they go on at {old.next}, the seal is {old.seal}"
                )
                findings.add(Code.SEGMENT_WRONG, text, place)
            if new is not None and new.start is not None and new.start != each.start:
                text = f"{what} starts at {each.start}, its genesis record says {new.start}"
                findings.add(Code.SEGMENT_WRONG, text, (after.incarnation, partition))
    if segments:
        for place, chain in chains.items():
            if place[0] == segments[-1].incarnation and chain.seal is not None:
                text = f"the files were ended at {chain.seal}, and no later segment is there"
                findings.add(Code.SEGMENT_UNFINISHED, text, place)


def unbatched(
    segments: Sequence[HubSegment], chains: Mapping[Place, ChainAudit], reached: Mapping[Place, int]
) -> Iterator[tuple[Place, str]]:
    """Files of a segment that no batch has, although batches of a later one were frozen.

    Args:
        segments: In order.
        chains: Of all of them.
        reached: Behind the last batch of each.
    """
    names = [segment.incarnation for segment in segments]
    newest = max((names.index(era) for era, _ in reached if era in names), default=-1)
    for place, chain in chains.items():
        if place[0] in names[: max(newest, 0)] and chain.files and chain.next != reached.get(place, chain.start):
            yield place, f"batches of a later segment were frozen, and files up to {(chain.next or 0) - 1} are in none"


def breaks(segments: Sequence[HubSegment]) -> list[BreakReport]:
    """For the report."""
    return [
        BreakReport(
            segment=segment.number,
            since=segment.since,
            partition=partition,
            start=each.start,
            files_end=each.files_end.sequence_number,
            common=each.common,
            gone=max(0, each.files_end.sequence_number - each.start + 1),
        )
        for segment in segments
        for partition, each in sorted(segment.breaks.items(), key=lambda item: (len(item[0]), item[0]))
    ]
