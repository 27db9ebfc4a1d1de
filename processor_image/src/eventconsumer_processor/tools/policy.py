"""PURE: whether a checkpoint may be put at a position, and what hosts would do then.

Files are the truth: hosts walk from the checkpoint to the end of the chain, so a position behind it changes nothing,
and one beyond it would leave events in no file, which hosts refuse (see `checkpoint`). Before a chain has begun, the
checkpoint is what it begins behind. Where a handler replaces the files, the checkpoint alone says what was handled.
"""

from dataclasses import dataclass

from eventconsumer_processor.inspect.leases import LeaseState, Position
from eventconsumer_processor.inspect.partitions import PartitionState
from eventconsumer_processor.tools.model import Action, Step

SUSPEND = "suspend the consumer (spec.suspend: true), wait until its hosts are gone, then run this again"


@dataclass(frozen=True)
class Rules:
    """What the consumer is like, and what whoever runs the command allows."""

    shared: bool = False  # other programs move the checkpoints too
    replaced: bool = False  # a handler instead of files
    allow_behind: bool = False
    allow_skip: bool = False


def judge(here: PartitionState, wanted: Position, rules: Rules) -> Step:
    """What happens to a partition's checkpoint.

    Args:
        here: The partition.
        wanted: Where its checkpoint is to be.
        rules: What is allowed.
    """
    number = wanted.sequence_number
    blocked = _owned(here)
    if blocked is not None:
        return blocked.model_copy(update={"to": wanted})
    if number > here.head:
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"the hub's last event of this partition is {here.head}, so {number} does not exist yet",
            "name a sequence number up to the hub's last, and make sure that it is the same Event Hub",
        )
    if rules.replaced:
        return _by_checkpoint(here, wanted, rules)
    if here.end is not None and number > here.end:
        return _beyond(here, wanted, here.end, rules)
    if here.end is not None and number < here.end:
        if not rules.allow_behind:
            return _step(
                here,
                wanted,
                Action.REFUSE,
                f"events up to {here.end} are in committed files: hosts go on behind them whatever the checkpoint "
                "says, so nothing would be read again",
                f"use {here.end}, or say --allow-behind to write it nevertheless (other programs on these leases "
                "would read from there); to read events again, start a replay",
            )
        text = f"hosts walk over the files to {here.end} and go on there; nothing is written twice"
        return _set(here, wanted, text)
    if here.end is not None:
        return _set(here, wanted, "the last event in a committed file")
    lost = here.earliest - number - 1
    if lost > 0:
        text = f"hosts begin behind it; {lost} events before {here.earliest} left the hub and become a recorded gap"
    else:
        text = f"hosts begin with event {number + 1}"
    return _set(here, wanted, text if here.checkpoint is None else f"no file was written yet: {text}")


def _by_checkpoint(here: PartitionState, wanted: Position, rules: Rules) -> Step:
    """A handler replaces the files: the checkpoint alone counts, but nothing before the start is handled."""
    number = wanted.sequence_number
    reached = here.checkpoint.sequence_number if here.checkpoint else None
    if reached is None and here.start is not None:
        reached = here.start - 1
    if reached is None or number == reached:
        return _set(here, wanted, f"the handler goes on with event {number + 1}")
    if number > reached:
        return _beyond(here, wanted, reached, rules)
    if not rules.allow_behind:
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"events {number + 1} to {reached} were handled, and would be handled again",
            "say --allow-behind if that is what you want",
        )
    return _set(here, wanted, f"events from {number + 1} on are handled again")


def _beyond(here: PartitionState, wanted: Position, end: int, rules: Rules) -> Step:
    """The position is beyond what was processed."""
    lost = f"events {end + 1} to {wanted.sequence_number}"
    what = "would not be handled" if rules.replaced else "would be in no file"
    if not (rules.shared or rules.replaced):
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"{lost} {what}, and hosts refuse to skip them",
            f"use {end}; if other programs on these leases processed them, set spec.leaseStore.shared",
        )
    if not rules.allow_skip:
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"{lost} {what}",
            f"use {end}, or say --allow-skip if they were processed elsewhere or are not wanted",
        )
    return _set(here, wanted, f"{lost} {what}" + ("" if rules.replaced else "; hosts record it as a gap"))


def _owned(here: PartitionState) -> Step | None:
    """The refusal where no program may write the checkpoint."""
    if here.state is LeaseState.HELD:
        owner = here.owner or "something that does not say its name"
        return _step(here, None, Action.REFUSE, f"{owner} owns the partition", SUSPEND)
    if here.state is LeaseState.UNKNOWN:
        remedy = "delete the blob: the next host makes it again and finds its place by the files"
        return _step(here, None, Action.REFUSE, f"its lease cannot be read: {here.damage}", remedy)
    return None


def _set(here: PartitionState, wanted: Position, why: str) -> Step:
    if here.checkpoint == wanted:
        return _step(here, wanted, Action.KEEP, "the checkpoint is there already")
    return _step(here, wanted, Action.SET, why)


def _step(here: PartitionState, wanted: Position | None, action: Action, why: str, remedy: str = "") -> Step:
    return Step(partition=here.partition, action=action, from_=here.checkpoint, to=wanted, why=why, remedy=remedy)
