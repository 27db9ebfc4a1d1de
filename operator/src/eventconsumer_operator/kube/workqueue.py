"""A work queue of keys, with delays and with backoff after failures.

The rules are those of client-go's work queue. A key is queued at most once, and never processed concurrently. `add` of
a queued key keeps the earlier time; `add` of a key that is being processed queues it again afterwards. Failures of one
key delay only that key. Unlike client-go, only an urgent request ends a backoff early: otherwise a failing resource
would be reconciled as often as its pods crash. Time is the event loop's, so tests run on virtual time.
"""

import asyncio
import contextlib
import heapq
import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

# Timers are not exact; waiting for less than this would only spin.
_EARLY = 0.001

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with jitter.

    Attributes:
        base: Delay after the first failure, seconds.
        cap: Longest delay, seconds.
        jitter: Random part of the delay: 0.5 means between half of the delay and all of it.
    """

    base: float = 0.5
    cap: float = 120.0
    jitter: float = 0.5

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after this many failures in a row (1 or more)."""
        # The bound prevents an overflow after days of failures.
        full = min(self.cap, self.base * 2.0 ** min(failures - 1, 60))
        return full * (1 - self.jitter * rng.random())


class WorkQueue(Generic[KeyT]):
    """The queue; for one event loop, not thread-safe."""

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
        self._active: dict[KeyT, float] = {}  # start of processing
        self.adds = 0
        self.retries = 0
        self._failures: dict[KeyT, int] = {}
        self._held: dict[KeyT, float] = {}  # not before this time, except for urgent requests
        self._urgent: set[KeyT] = set()  # keys that were added as urgent
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """Queued keys, due or not."""
        return len(self._due)

    def add(self, key: KeyT, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Queue `key`; an earlier time is kept.

        Args:
            key: The key.
            delay: Seconds from now.
            urgent: Forget the failures of the key, and end its backoff.
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
        """Queue `key` with backoff after a failure; return the delay, seconds."""
        self.retries += 1
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(self._failures[key], self._rng)
        self.hold(key, delay)
        return delay

    def hold(self, key: KeyT, delay: float) -> None:
        """Queue `key` not before `delay` seconds from now; an urgent request is kept."""
        self.adds += 1
        if key not in self._urgent:
            self._held[key] = asyncio.get_running_loop().time() + delay
            self._set(key, self._held[key])

    def succeeded(self, key: KeyT) -> None:
        """Forget the failures of `key`."""
        self._failures.pop(key, None)
        self._held.pop(key, None)

    async def get(self) -> KeyT:
        """Wait for the next due key; call `done` with it after processing."""
        # One worker waits for the clock, the others for the lock: otherwise each key would wake all workers.
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
        """Processing of `key` has ended, with or without success."""
        self._active.pop(key, None)
        if key in self._due:
            self._push(self._due[key], key)

    def overdue(self) -> float:
        """Seconds by which the oldest due key is overdue; 0 if none is."""
        delay = self._until_next()
        return max(0.0, -delay) if delay is not None else 0.0

    def longest(self) -> float:
        """Longest time for which a key has been in processing, seconds; 0 if none is."""
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
        # An entry is stale if its key is being processed, or is queued for another time.
        while self._heap and (self._heap[0][2] in self._active or self._due.get(self._heap[0][2]) != self._heap[0][0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] - asyncio.get_running_loop().time() if self._heap else None
