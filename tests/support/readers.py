"""The time during which partitions had no reader, from the emulator."""

import threading
import time
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 0.1


class Readers(threading.Thread):
    """Records which partitions have a reader, and how long each had none."""

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
        """Record until `end`."""
        while not self._ended.wait(POLL_SECONDS):
            try:
                found = {link["partition"] for link in self._links()}
            except OSError:  # no answer within the client's timeout: unknown counts as unread
                found = set()
            now = time.monotonic()
            with self._lock:
                for partition in self._ids:
                    self._longest[partition] = max(self._longest[partition], now - self._seen[partition])
                    if partition in found:
                        self._seen[partition] = now
                self._read = found

    def begin(self) -> None:
        """Reset the record."""
        with self._lock:
            self._longest = dict.fromkeys(self._ids, 0.0)

    def all_read(self) -> bool:
        """Whether every partition has a reader now."""
        with self._lock:
            return len(self._read) == len(self._ids)

    def longest(self) -> float:
        """Longest time that a partition was unread, seconds; checked every 0.1 s, so the minimum is 0.1."""
        with self._lock:
            return max(self._longest.values())

    def end(self) -> None:
        """Stop recording."""
        self._ended.set()
        self.join()
