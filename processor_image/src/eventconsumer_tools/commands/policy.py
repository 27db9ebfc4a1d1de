"""PURE: whether a checkpoint may be set to a position, and the effect on hosts.

Files are the source of truth: hosts walk from the checkpoint to the end of the chain, so a position before the end
changes nothing, and a position after it would leave events in no file, which hosts refuse (see `checkpoint`). A new
chain begins after the checkpoint. If a handler replaces the files, only the checkpoint records the handled events.
"""

from dataclasses import dataclass

from eventconsumer_tools.commands.model import Action, Step
from eventconsumer_tools.inspect.leases import CheckpointPosition, LeaseState
from eventconsumer_tools.inspect.partitions import PartitionState

SUSPEND = "suspend the consumer (spec.suspend: true), wait until its hosts have ended, then run this again"


@dataclass(frozen=True)
class Rules:
    """Properties of the consumer, and options of the command."""

    shared: bool = False  # other programs move the checkpoints too
    replaced: bool = False  # a handler instead of files
    allow_behind: bool = False
    allow_skip: bool = False


def judge(here: PartitionState, wanted: CheckpointPosition, rules: Rules) -> Step:
    """The step for a partition's checkpoint.

    Args:
        here: The partition.
        wanted: The new position of its checkpoint.
        rules: The allowed steps.
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
            f"the hub's last event of this partition is {here.head}: {number} does not exist yet",
            f"use a sequence number up to {here.head}, and check that it is the same Event Hub",
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
                f"events up to {here.end} are in committed files: hosts continue after the files, and would read no "
                "event again",
                f"use {here.end}, or --allow-behind to write it nevertheless (other programs on these leases would "
                "read from there); to read events again, start a replay",
            )
        text = f"hosts skip the files up to {here.end} and continue there; no event is written twice"
        return _set(here, wanted, text)
    if here.end is not None:
        return _set(here, wanted, "the last event in a committed file")
    lost = here.earliest - number - 1
    if lost > 0:
        text = (
            f"hosts begin after it; {lost} events before {here.earliest} expired in the hub and are recorded as a gap"
        )
    else:
        text = f"hosts begin with event {number + 1}"
    return _set(here, wanted, text if here.checkpoint is None else f"no file was written yet: {text}")


def _by_checkpoint(here: PartitionState, wanted: CheckpointPosition, rules: Rules) -> Step:
    """The step if a handler replaces the files: only the checkpoint counts, but never before the chain's start."""
    number = wanted.sequence_number
    reached = here.checkpoint.sequence_number if here.checkpoint else None
    if reached is None and here.start is not None:
        reached = here.start - 1
    if reached is None or number == reached:
        return _set(here, wanted, f"the handler continues with event {number + 1}")
    if number > reached:
        return _beyond(here, wanted, reached, rules)
    if not rules.allow_behind:
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"events {number + 1} to {reached} were handled, and would be handled again",
            "use --allow-behind to handle them again",
        )
    return _set(here, wanted, f"events from {number + 1} are handled again")


def _beyond(here: PartitionState, wanted: CheckpointPosition, end: int, rules: Rules) -> Step:
    """The step if the position is after the processed events."""
    lost = f"events {end + 1} to {wanted.sequence_number}"
    effect = "would not be handled" if rules.replaced else "would be in no file"
    if not (rules.shared or rules.replaced):
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"{lost} {effect}, and hosts refuse to skip them",
            f"use {end}; if other programs on these leases processed them, set spec.checkpointStore.shared",
        )
    if not rules.allow_skip:
        return _step(
            here,
            wanted,
            Action.REFUSE,
            f"{lost} {effect}",
            f"use {end}, or --allow-skip if they were processed elsewhere or are not needed",
        )
    return _set(here, wanted, f"{lost} {effect}" + ("" if rules.replaced else "; hosts record it as a gap"))


def _owned(here: PartitionState) -> Step | None:
    """The refusal if the lease is held or damaged."""
    if here.state is LeaseState.HELD:
        owner = here.owner or "a program without a name"
        return _step(here, None, Action.REFUSE, f"{owner} owns the partition", SUSPEND)
    if here.state is LeaseState.UNKNOWN:
        remedy = "delete the blob: the next host creates it again and finds its place by the files"
        return _step(here, None, Action.REFUSE, f"its lease cannot be read: {here.damage}", remedy)
    return None


def _set(here: PartitionState, wanted: CheckpointPosition, why: str) -> Step:
    if here.checkpoint == wanted:
        return _step(here, wanted, Action.KEEP, "the checkpoint is already there")
    return _step(here, wanted, Action.SET, why)


def _step(here: PartitionState, wanted: CheckpointPosition | None, action: Action, why: str, remedy: str = "") -> Step:
    return Step(partition=here.partition, action=action, from_=here.checkpoint, to=wanted, why=why, remedy=remedy)
