"""When a checkpoint is written: a pure rule over what is done and in no checkpoint yet.

A checkpoint can only stand where everything before it is safe: behind a committed file, or, where a handler replaces
the files, behind a batch that the handler processed. So the rule is asked at these moments and says whether this one
is taken:

    File, Batch   always
    Events        once `events` events were done since the last checkpoint
    Interval      once the oldest of them was done `seconds` seconds ago

With files, Batch is the same as File: a batch is safe when its file is. What no checkpoint covers is read again after a
crash: it costs time with files, where nothing is written twice, and repeats the work of a handler that replaces them.
"""

from typing import Literal

from eventconsumer_api.v1alpha1 import CheckpointPolicy, CheckpointRule


class CheckpointSchedule:
    """Follows one partition. Times are seconds of any clock that only rises."""

    def __init__(self, rule: CheckpointRule, *, replaces_files: bool) -> None:
        """A schedule on which nothing is done yet.

        Args:
            rule: `processing.checkpoint`.
            replaces_files: Whether there are no files, only a handler: it decides what an absent policy means.
        """
        default = CheckpointPolicy.BATCH if replaces_files else CheckpointPolicy.FILE
        self._policy = rule.policy or default
        self._rule = rule
        self._moment = "batch" if replaces_files else "file"
        self._events = 0
        self._since: float | None = None

    def note(self, events: int, now: float) -> None:
        """Take in that events are done which no checkpoint covers."""
        if events and self._since is None:
            self._since = now
        self._events += events

    def due(self, now: float, at: Literal["file", "batch"]) -> bool:
        """Whether to write a checkpoint now.

        Args:
            now: The time.
            at: What was just done: a file, or a batch; also asked while nothing comes, so that an interval ends.
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
        """Take in that a checkpoint covers everything noted."""
        del now  # an interval starts with the next event that is done
        self._events = 0
        self._since = None
