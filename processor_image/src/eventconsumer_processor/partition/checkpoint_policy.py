"""The schedule of checkpoints: a pure rule on the events that are done but not checkpointed.

A checkpoint is possible only where all earlier events are safe: after a committed file or, without files, after a batch
that the handler processed. The policy decides at these moments whether to write a checkpoint:

    File, Batch   always
    Events        after `events` events since the last checkpoint
    Interval      when the oldest event since the last checkpoint was done `seconds` seconds ago

With files, Batch is the same as File: a batch is safe when its file is. After a crash, events after the checkpoint are
read again. With files this only costs time, as no event is written twice. Without files the handler processes the
events again.
"""

from typing import Literal

from eventconsumer_api.v1alpha1 import CheckpointPolicy, CheckpointRule


class CheckpointSchedule:
    """The schedule of one partition. Times are seconds of any monotonic clock."""

    def __init__(self, rule: CheckpointRule, *, replaces_files: bool) -> None:
        """Create a schedule without events.

        Args:
            rule: `processing.checkpoint`.
            replaces_files: Whether the handler replaces the files: it determines the default policy.
        """
        default = CheckpointPolicy.BATCH if replaces_files else CheckpointPolicy.FILE
        self._policy = rule.policy or default
        self._rule = rule
        self._moment = "batch" if replaces_files else "file"
        self._events = 0
        self._since: float | None = None

    def note(self, events: int, now: float) -> None:
        """Record that events are done that no checkpoint covers."""
        if events and self._since is None:
            self._since = now
        self._events += events

    def due(self, now: float, at: Literal["file", "batch"]) -> bool:
        """Whether to write a checkpoint now.

        Args:
            now: The time.
            at: What was completed: a file or a batch. Also called while no events arrive, so that an interval ends.
        """
        if self._since is None or at != self._moment:
            return False
        match self._policy:
            case CheckpointPolicy.EVENTS:
                return self._events >= self._rule.events
            case CheckpointPolicy.INTERVAL:
                return now - self._since >= self._rule.seconds
        return True

    def written(self, now: float) -> None:
        """Record that a checkpoint covers all events that are done."""
        del now  # an interval starts with the next event that is done
        self._events = 0
        self._since = None
