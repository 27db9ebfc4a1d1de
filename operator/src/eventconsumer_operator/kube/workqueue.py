"""A queue of keys: each key at most once, never handled twice at a time, later or sooner, with backoff after failures.

The rules are those of client-go's work queue. `add` while a key waits keeps the earlier of the two times; `add` while
it is being handled makes it ready again when the handler is done, so that nothing seen in between is missed. Failures
of one key delay that key only. Otherwise than there, the backoff holds: until it is over nothing but an urgent wish
brings the key back, else a resource that fails while its pods crash would be handled as often as they do. Time is the
event loop's, so tests run on virtual time.
"""

import asyncio
import contextlib
import heapq
import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

# Timers fire a little early or late; waiting for less than this again would only spin.
_EARLY = 0.001

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with jitter.

    Attributes:
        base: Delay after the first failure, seconds.
        cap: Longest delay, seconds.
        jitter: Part of the delay that is random: 0.5 means between half of the delay and all of it.
    """

    base: float = 0.5
    cap: float = 120.0
    jitter: float = 0.5

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after this many failures in a row (1 or more)."""
        # 2 ** 60 seconds is beyond any cap; the bound keeps the power from overflowing after days of failures.
        full = min(self.cap, self.base * 2.0 ** min(failures - 1, 60))
        return full * (1 - self.jitter * rng.random())


class WorkQueue(Generic[KeyT]):
    """The queue. Not thread-safe: one event loop."""

    def __init__(self, backoff: Backoff | None = None, rng: random.Random | None = None) -> None:
        """Start empty.

        Args:
            backoff: Delays after failures.
            rng: Source of jitter.
        """
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not cryptography
        self._due: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._sequence = 0
        self._active: dict[KeyT, float] = {}  # since when each is being handled
        self.adds = 0
        self.retries = 0
        self._failures: dict[KeyT, int] = {}
        self._held: dict[KeyT, float] = {}  # not before this time, unless the wish is urgent
        self._urgent: set[KeyT] = set()  # keys that were added as urgent
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """Keys that wait, ready or not."""
        return len(self._due)

    def add(self, key: KeyT, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Ask for `key` to be handled; an earlier wish stands.

        Args:
            key: What to handle.
            delay: Seconds from now.
            urgent: Something new about the key itself: its failures are forgotten, and nothing holds it.
        """
        self.adds += 1
        when = asyncio.get_running_loop().time() + max(0.0, delay)
        if urgent:
            self.succeeded(key)
            self._urgent.add(key)
        else:
            when = max(when, self._held.get(key, when))
        if key not in self._due or when < self._due[key]:
            self._set(key, when)

    def retry(self, key: KeyT) -> float:
        """Ask for `key` again after a failure, and not before; return the delay, seconds."""
        self.retries += 1
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(self._failures[key], self._rng)
        self.hold(key, delay)
        return delay

    def hold(self, key: KeyT, delay: float) -> None:
        """Ask for `key` to be handled `delay` seconds from now and not before; an urgent wish stands."""
        self.adds += 1
        if key not in self._urgent:
            self._held[key] = asyncio.get_running_loop().time() + delay
            self._set(key, self._held[key])

    def succeeded(self, key: KeyT) -> None:
        """Forget the failures of `key`."""
        self._failures.pop(key, None)
        self._held.pop(key, None)

    async def get(self) -> KeyT:
        """Wait for the next key that is due and not being handled; call `done` with it afterwards."""
        # One waits for the clock, the others for their turn: else each key would wake all of them.
        async with self._turn:
            while True:
                delay = self._until_next()
                if delay is not None and delay <= _EARLY:
                    _, _, key = heapq.heappop(self._heap)
                    del self._due[key]
                    self._held.pop(key, None)
                    self._urgent.discard(key)
                    self._active[key] = asyncio.get_running_loop().time()
                    return key
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._changed.wait()

    def done(self, key: KeyT) -> None:
        """Say that the handling of `key` has ended, well or not."""
        self._active.pop(key, None)
        if key in self._due:
            self._push(self._due[key], key)

    def overdue(self) -> float:
        """Seconds by which the key that waits longest is late; 0 if none is late."""
        delay = self._until_next()
        return max(0.0, -delay) if delay is not None else 0.0

    def longest(self) -> float:
        """Seconds for which the key that is handled longest has been handled; 0 if none is."""
        return asyncio.get_running_loop().time() - min(self._active.values()) if self._active else 0.0

    def _set(self, key: KeyT, when: float) -> None:
        self._due[key] = when
        if key not in self._active:
            self._push(when, key)

    def _push(self, when: float, key: KeyT) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, key))
        self._changed.set()

    def _until_next(self) -> float | None:
        # An entry is stale when its key is being handled, or waits for another time than the entry says.
        while self._heap and (self._heap[0][2] in self._active or self._due.get(self._heap[0][2]) != self._heap[0][0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] - asyncio.get_running_loop().time() if self._heap else None
