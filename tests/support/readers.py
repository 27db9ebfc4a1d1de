"""How long partitions were not read, as the emulator sees it."""

import threading
import time
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 0.1


class Readers(threading.Thread):
    """Follows which partitions are read, and for how long each was not."""

    def __init__(self, links: Callable[[], list[dict[str, Any]]], partitions: int) -> None:
        """Follow a hub.

        Args:
            links: Asks the emulator for the hub's readers.
            partitions: Of the hub.
        """
        super().__init__(daemon=True)
        self._links = links
        self._lock = threading.Lock()
        self._ids = [str(number) for number in range(partitions)]
        self._seen = dict.fromkeys(self._ids, time.monotonic())
        self._longest = dict.fromkeys(self._ids, 0.0)
        self._read: set[str] = set()
        self._ended = threading.Event()

    def run(self) -> None:
        """Look until `end`."""
        while not self._ended.wait(POLL_SECONDS):
            found = {link["partition"] for link in self._links()}
            now = time.monotonic()
            with self._lock:
                for partition in self._ids:
                    self._longest[partition] = max(self._longest[partition], now - self._seen[partition])
                    if partition in found:
                        self._seen[partition] = now
                self._read = found

    def begin(self) -> None:
        """Forget what was before."""
        with self._lock:
            self._longest = dict.fromkeys(self._ids, 0.0)

    def all_read(self) -> bool:
        """Whether every partition has a reader now."""
        with self._lock:
            return len(self._read) == len(self._ids)

    def longest(self) -> float:
        """Longest time that a partition was unread, seconds; looking every 0.1 s, so zero looks like 0.1."""
        with self._lock:
            return max(self._longest.values())

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()
