"""Contests: objects that another client changes back again and again. Pure, apart from its memory.

A change by hand is corrected at once. But a second operator for the namespace, or a policy that changes objects when
they are written, would make both write for ever: so from the fourth correction to the same manifest within minutes on,
the next one waits, twice as long each time, and a condition names the object.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from eventconsumer_api.kube.kinds import Kind
from eventconsumer_operator.errors import Contested
from eventconsumer_operator.keys import Key

AT_ONCE = 3  # corrections to the same manifest in a row without a wait
WAIT_SECONDS = 10.0
LONGEST_SECONDS = 600.0
_AGAIN_SECONDS = 60.0  # after the wait: a later change is not of the same contest
_SHOWN_SECONDS = 30.0  # after the wait, if nothing was changed back


@dataclass(frozen=True)
class _Contest:
    """Corrections of an object.

    Attributes:
        what: The object, as kubectl takes it.
        digest: Of the manifest that was applied each time.
        times: Number of corrections.
        last: When the last one was made, seconds of the clock.
        why: The difference that it corrected.
    """

    what: str
    digest: str
    times: int
    last: float
    why: str

    @property
    def wait(self) -> float:
        """Seconds from the last correction to the next one."""
        over = self.times - AT_ONCE
        return min(LONGEST_SECONDS, WAIT_SECONDS * 2.0 ** min(over - 1, 10)) if over > 0 else 0.0


class Contests:
    """The corrections of the objects of each resource."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember nothing; the clock is in seconds."""
        self._clock = clock
        self._found: dict[Key, dict[tuple[Kind, str], _Contest]] = {}

    def waits(self, key: Key, where: tuple[Kind, str], digest: str) -> bool:
        """Whether an object must not be corrected now to the manifest with this digest."""
        found = self._found.get(key, {}).get(where)
        return found is not None and found.digest == digest and self._clock() - found.last < found.wait

    def corrected(self, key: Key, where: tuple[Kind, str], digest: str, what: str, why: str) -> None:
        """An object was corrected to the manifest with this digest."""
        now, found = self._clock(), self._found.get(key, {}).get(where)
        again = found is not None and found.digest == digest and now - found.last < 2 * found.wait + _AGAIN_SECONDS
        times = found.times + 1 if found is not None and again else 1
        self._found.setdefault(key, {})[where] = _Contest(what, digest, times, now, why)

    def errors(self, key: Key) -> tuple[Contested, ...]:
        """The contests that go on."""
        now = self._clock()
        return tuple(
            Contested(
                f"{each.what} was corrected {each.times} times, and another client changes it back ({each.why}): stop "
                "it: a second operator for this namespace, an admission policy or an autoscaler. "
                f"kubectl get {each.what} -o yaml --show-managed-fields names the writers. "
                f"Corrections wait up to {LONGEST_SECONDS:.0f} s"
            )
            for each in self._found.get(key, {}).values()
            if each.wait and now - each.last < each.wait + _SHOWN_SECONDS
        )

    def forget(self, key: Key) -> None:
        """Forget a resource that was deleted."""
        self._found.pop(key, None)
