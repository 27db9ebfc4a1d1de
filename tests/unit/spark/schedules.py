"""Attempts at one batch whose every storage request waits for its turn, so that a test decides who comes next.

Each attempt runs the product's own code in a thread; before each request it stops and asks. What a test can do to it:
let it do one request, lose the answer of one (it is done, and the attempt sees a repeated request's answer), drop the
connection (done or not, the attempt sees an error), kill it, or hold a request back so that it arrives later.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from eventconsumer_api.wire.batch import BatchClaim, BatchCommit, attempt_name
from eventconsumer_spark.attempt.claim import Decided, take
from eventconsumer_spark.attempt.commit import commit, find_commit, publish
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.storage.store import BlobFacts, ClaimStore, Version
from eventconsumer_storage.errors import StorageError

PREFIX = "shop/orders"
NUMBER = 3
CLAIM = attempt_name(PREFIX, NUMBER)
_PATIENCE = 20.0  # Seconds until a test that hangs says so.
TIMES = datetime(2026, 1, 1, tzinfo=UTC)


class _Killed(BaseException):
    """The process is gone: no code of the attempt may see this as an error."""


@dataclass
class Gate:
    """The storage as one attempt sees it; `step` lets one request through."""

    store: ClaimStore
    name: str
    waiting: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Event = field(default_factory=threading.Event)
    _way: str = "do"
    request: str = ""
    held: list[Callable[[], Any]] = field(default_factory=list)

    def pass_through(self, request: str, effect: Callable[[], Any]) -> Any:
        """Wait for the turn; then act as the test said."""
        self.request = request
        self.waiting.set()
        if not self._turn.wait(_PATIENCE):
            raise _Killed
        self._turn.clear()
        way = self._way
        if way == "kill":
            raise _Killed
        if way == "hold":  # The process is gone, its request is on the way.
            self.held.append(effect)
            raise _Killed
        if way == "refuse":
            raise StorageError("no answer; the request did not arrive")
        result = effect()
        if way == "lose":
            raise StorageError("no answer; the request did arrive")
        return effect() if way == "repeat" else result

    def step(self, way: str = "do") -> None:
        """Let the request that waits go on in this way."""
        self._way = way
        self.waiting.clear()
        self._turn.set()

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob."""
        return self.pass_through(f"read {name}", lambda: self.store.read(name, limit))  # type: ignore[no-any-return]

    def load(self, name: str, limit: int) -> Version | None:
        """Content with ETag."""
        return self.pass_through(f"load {name}", lambda: self.store.load(name, limit))  # type: ignore[no-any-return]

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size."""
        return self.store.facts(name)

    def create(self, name: str, content: bytes) -> bool:
        """Put if absent."""
        return bool(self.pass_through(f"create {name}", lambda: self.store.create(name, content)))

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if unchanged."""
        effect = lambda: self.store.replace(name, content, etag, lease)  # noqa: E731
        return bool(self.pass_through(f"replace {name}", effect))

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Take a lease."""
        return bool(self.pass_through(f"acquire {name}", lambda: self.store.acquire(name, seconds, lease)))

    def renew(self, name: str, lease: str) -> bool:
        """Renew a lease; not a step of its own."""
        return self.store.renew(name, lease)

    def release(self, name: str, lease: str) -> None:
        """End a lease."""
        self.pass_through(f"release {name}", lambda: self.store.release(name, lease))

    def break_off(self, name: str, seconds: int) -> None:
        """Let a lease end soon."""
        self.store.break_off(name, seconds)


class ScheduledAttempt:
    """One attempt: claim, work, commit; `work` is a step, too."""

    def __init__(self, store: ClaimStore, name: str, clock: Callable[[], float]) -> None:
        self.gate = Gate(store, name)
        self.name = name
        self.worked = False
        self.record = record(name)
        self.standing: BatchCommit | None = None
        self.error: str = ""
        self._clock = clock
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it is not at its end; waits until it asks for its next request, or ends."""
        while self._thread.is_alive():
            if self.gate.waiting.wait(0.002):
                return True
        return False

    def step(self, way: str = "do") -> str:
        """Do the next request in this way; return its name, empty at the end."""
        if not self.running:
            return ""
        request = self.gate.request
        self.gate.step(way)
        _ = self.running  # Waits: from here on its effect has happened.
        return request

    def until(self, request: str) -> None:
        """Do requests until the one that begins so is next."""
        while self.running and not self.gate.request.startswith(request):
            self.gate.step()
        assert self.running, f"{self.name} ended before {request}: {self.error or self.standing}"

    def finish(self) -> None:
        """Do all requests."""
        while self.running:
            self.gate.step()

    def _run(self) -> None:
        try:
            taken = take(
                self.gate,
                CLAIM,
                BatchClaim(number=NUMBER, claimed_at=TIMES, application=f"app-{self.name}", attempt=self.name),
                self._lost,
                clock=self._clock,
                sleep=lambda _: None,
            )
            if isinstance(taken, Decided):
                self.standing = publish(self.gate, PREFIX, NUMBER, taken.content)
                return
            if standing := find_commit(self.gate, PREFIX, NUMBER):
                self.standing = standing
                return
            self.gate.pass_through("work", lambda: None)
            self.worked = True
            self.standing = commit(self.gate, PREFIX, taken, self.record).record
            taken.release()
        except SparkJobError as error:
            self.error = f"{type(error).__name__}: {error}"
        except _Killed:
            self.error = "killed"

    def _lost(self, reason: str) -> None:
        self.error = reason


def record(attempt: str) -> BatchCommit:
    """A commit by an attempt of this id, as long as real ones."""
    return BatchCommit(
        number=NUMBER,
        committed_at=TIMES,
        application=f"app-{attempt}",
        attempt=attempt,
        output="abfss://results@shop.blob.core.windows.net/orders",
        files=2,
        rows_read=20,
        rows_written=20,
        seconds=1.0,
    )
