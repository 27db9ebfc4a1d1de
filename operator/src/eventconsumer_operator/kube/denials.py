"""Denied permissions, and since when. Pure, apart from its memory.

After a start the API server denies requests until it has loaded the roles, for some seconds. So a permission is missing
only if requests are denied for a while; until then they are repeated.
"""

from collections.abc import Iterable

from eventconsumer_operator.errors import DependencyNotReady, Forbidden, OperatorError
from eventconsumer_operator.keys import Key

PATIENCE_SECONDS = 60.0
RETRY_SECONDS = 5.0


class Denials:
    """Since when requests for each resource are denied."""

    def __init__(self) -> None:
        self._since: dict[Key, float] = {}

    def weighed(self, key: Key, errors: Iterable[OperatorError], now: float) -> tuple[OperatorError, ...]:
        """The errors of one reconcile, where a denial that may pass is a delay.

        Args:
            key: The resource.
            errors: All errors of the reconcile. If no request was denied, an earlier denial has ended.
            now: Seconds, on any clock.
        """
        found = tuple(errors)
        if not any(isinstance(each, Forbidden) for each in found):
            self.forget(key)
            return found
        if now - self._since.setdefault(key, now) >= PATIENCE_SECONDS:
            return found
        return tuple(
            DependencyNotReady(f"{each}: retrying, because the API server may not have loaded its roles", RETRY_SECONDS)
            if isinstance(each, Forbidden)
            else each
            for each in found
        )

    def forget(self, key: Key) -> None:
        """Forget the denials of a resource."""
        self._since.pop(key, None)
