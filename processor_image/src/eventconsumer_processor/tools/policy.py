"""PURE: whether a checkpoint may be put at a position, and what hosts would do then.

Files are the truth: hosts walk from the checkpoint to the end of the chain, so a position behind it changes nothing,
and one beyond it would leave events in no file, which hosts refuse (see `checkpoint`). Before a chain has begun, the
checkpoint is what it begins behind. Where a handler replaces the files, the checkpoint alone says what was handled.
"""

from dataclasses import dataclass

from eventconsumer_processor.tools.model import Action, LeaseState, Position, Step

SUSPEND = "suspend the consumer (spec.suspend: true), wait until its hosts are gone, then run this again"


@dataclass(frozen=True)
class Standing:
    """One partition, as it is before anything is written.

    Attributes:
        partition: Its id.
        state: Whether it has an owner.
        owner: Who.
        checkpoint: As it is now.
        damage: Why the lease cannot be read.
        start: Where the chain of files starts; None: it has not begun.
        end: Last sequence number in a file; None: it has not begun.
        earliest: Sequence number of the first event that the hub still has.
        head: The hub's last sequence number.
    """

    partition: str
    state: LeaseState
    owner: str = ""
    checkpoint: Position | None = None
    damage: str = ""
    start: int | None = None
    end: int | None = None
    earliest: int = 0
    head: int = -1


@dataclass(frozen=True)
class Rules:
    """What the consumer is like, and what whoever runs the command allows."""

    shared: bool = False  # other programs move the checkpoints too
    replaced: bool = False  # a handler instead of files
    allow_behind: bool = False
    allow_skip: bool = False


def judge(standing: Standing, wanted: Position, rules: Rules) -> Step:
    """What happens to a partition's checkpoint.

    Args:
        standing: The partition.
        wanted: Where its checkpoint is to be.
        rules: What is allowed.
    """
    number, here = wanted.sequence_number, standing.checkpoint
    blocked = _owned(standing)
    if blocked is not None:
        return blocked.model_copy(update={"to": wanted})
    if number > standing.head:
        return _step(
            standing,
            wanted,
            Action.REFUSE,
            f"the hub's last event of this partition is {standing.head}, so {number} does not exist yet",
            "name a sequence number up to the hub's last, and make sure that it is the same Event Hub",
        )
    if rules.replaced:
        return _by_checkpoint(standing, wanted, rules)
    if standing.end is not None and number > standing.end:
        return _beyond(standing, wanted, standing.end, rules)
    if standing.end is not None and number < standing.end:
        if not rules.allow_behind:
            return _step(
                standing,
                wanted,
                Action.REFUSE,
                f"events up to {standing.end} are in committed files: hosts go on behind them whatever the checkpoint "
                "says, so nothing would be read again",
                f"use {standing.end}, or say --allow-behind to write it nevertheless (other programs on these leases "
                "would read from there); to read events again, start a replay",
            )
        text = f"hosts walk over the files to {standing.end} and go on there; nothing is written twice"
        return _set(standing, wanted, text)
    if standing.end is not None:
        return _set(standing, wanted, "the last event in a committed file")
    lost = standing.earliest - number - 1
    if lost > 0:
        text = f"hosts begin behind it; {lost} events before {standing.earliest} left the hub and become a recorded gap"
    else:
        text = f"hosts begin with event {number + 1}"
    return _set(standing, wanted, text if here is None else f"no file was written yet: {text}")


def _by_checkpoint(standing: Standing, wanted: Position, rules: Rules) -> Step:
    """A handler replaces the files: the checkpoint alone counts, but nothing before the start is handled."""
    number = wanted.sequence_number
    reached = standing.checkpoint.sequence_number if standing.checkpoint else None
    if reached is None and standing.start is not None:
        reached = standing.start - 1
    if reached is None or number == reached:
        return _set(standing, wanted, f"the handler goes on with event {number + 1}")
    if number > reached:
        return _beyond(standing, wanted, reached, rules)
    if not rules.allow_behind:
        return _step(
            standing,
            wanted,
            Action.REFUSE,
            f"events {number + 1} to {reached} were handled, and would be handled again",
            "say --allow-behind if that is what you want",
        )
    return _set(standing, wanted, f"events from {number + 1} on are handled again")


def _beyond(standing: Standing, wanted: Position, end: int, rules: Rules) -> Step:
    """The position is beyond what was processed."""
    lost = f"events {end + 1} to {wanted.sequence_number}"
    what = "would not be handled" if rules.replaced else "would be in no file"
    if not (rules.shared or rules.replaced):
        return _step(
            standing,
            wanted,
            Action.REFUSE,
            f"{lost} {what}, and hosts refuse to skip them",
            f"use {end}; if other programs on these leases processed them, set spec.leaseStore.shared",
        )
    if not rules.allow_skip:
        return _step(
            standing,
            wanted,
            Action.REFUSE,
            f"{lost} {what}",
            f"use {end}, or say --allow-skip if they were processed elsewhere or are not wanted",
        )
    return _set(standing, wanted, f"{lost} {what}" + ("" if rules.replaced else "; hosts record it as a gap"))


def _owned(standing: Standing) -> Step | None:
    """The refusal where no program may write the checkpoint."""
    if standing.state is LeaseState.HELD:
        owner = standing.owner or "something that does not say its name"
        return _step(standing, None, Action.REFUSE, f"{owner} owns the partition", SUSPEND)
    if standing.state is LeaseState.UNKNOWN:
        remedy = "delete the blob: the next host makes it again and finds its place by the files"
        return _step(standing, None, Action.REFUSE, f"its lease cannot be read: {standing.damage}", remedy)
    return None


def _set(standing: Standing, wanted: Position, why: str) -> Step:
    if standing.checkpoint == wanted:
        return _step(standing, wanted, Action.KEEP, "the checkpoint is there already")
    return _step(standing, wanted, Action.SET, why)


def _step(standing: Standing, wanted: Position | None, action: Action, why: str, remedy: str = "") -> Step:
    return Step(
        partition=standing.partition, action=action, from_=standing.checkpoint, to=wanted, why=why, remedy=remedy
    )
