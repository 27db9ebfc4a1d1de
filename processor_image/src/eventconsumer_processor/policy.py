"""When a checkpoint is written. Pure."""

from typing import Literal

from eventconsumer_api.v1alpha1 import CheckpointPolicy, CheckpointRule


class CheckpointSchedule:
    """Follows one partition's events."""

    def __init__(self, rule: CheckpointRule, *, replaces_files: bool) -> None:
        default = CheckpointPolicy.BATCH if replaces_files else CheckpointPolicy.FILE
        self._policy = rule.policy or default
        self._rule = rule
        self._events = 0
        self._since: float | None = None

    def note(self, events: int, now: float) -> None:
        """Events that are done and in no checkpoint."""
        self._events += events
        if self._since is None:
            self._since = now

    def due(self, now: float, at: Literal["file", "batch"]) -> bool:
        """Whether to write one."""
        if self._since is None:
            return False
        match self._policy:
            case CheckpointPolicy.EVENTS:
                return self._events >= self._rule.events
            case CheckpointPolicy.INTERVAL:
                return now - self._since >= self._rule.seconds
        return True

    def written(self, now: float) -> None:
        """One was written."""
        self._events = 0
        self._since = None
