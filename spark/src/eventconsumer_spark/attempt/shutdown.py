"""Early end of a driver: termination message, no further writes, exit code.

A driver that lost its claim, or is terminated (SIGTERM: suspended, deleted, timed out, node drained), must stop writing
before another attempt starts. So the JVM is halted, not shut down: its tasks end at once, and executors that lose their
driver exit by themselves. On SIGTERM the claim's lease is broken first, to end a few seconds later: the next attempt
need not wait until it expires, and still begins after this one. A driver without a batch in progress (it waits for the
next one, or maintains its output) has nothing to lose, and ends with code 0.

Java and Python both receive SIGTERM. Java ignores it: a JVM that shut down first would end the container, with its own
code and before the lease is broken.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pyspark import SparkContext

from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import clean_line
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_spark.attempt.claim import Claim

TERMINATION_LOG = Path("/dev/termination-log")
"""File from which Kubernetes reads a container's termination message for the pod's status."""
TERMINATED = 128 + signal.SIGTERM
GRACE_SECONDS = 3
"""Time between breaking a lease and its end; the JVM is halted within it."""

_STORAGE_SECONDS = 5.0
_HALT_SECONDS = 2.0
_MAX_CHARACTERS = 4096  # The limit of Kubernetes.

log = logging.getLogger(__name__)


class Ending:
    """The end of this process; it happens once."""

    def __init__(self) -> None:
        self._claim: Claim | None = None
        self._done = False
        self._begun = threading.Lock()

    def hold(self, claim: Claim) -> None:
        """A batch is in progress: its claim is broken on SIGTERM."""
        self._claim, self._done = claim, False

    def committed(self, job: BatchJob) -> None:
        """The batch of `job` is committed. SIGTERM then ends with code 0, unless batches of reprocessing are left."""
        self._claim, self._done = None, job.reprocess is None or job.number == job.reprocess.last

    def let_go(self) -> None:
        """The claim is released."""
        self._claim = None

    def install(self) -> None:
        """Handle SIGTERM, unless the program has its own handler, or calls this outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
            # In a thread: the main thread may hold any lock.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=self.terminated, daemon=True).start())
            _ignore_in_java()

    def lost(self, reason: str) -> None:
        """End because another attempt has taken over, or may have."""
        self._begin(reason)
        _halt(1)

    def terminated(self) -> None:
        """End because of SIGTERM; if all batches so far are committed, without a message of failure."""
        claim = self._claim
        if self._done:
            self._begun.acquire()
            log.info("ended by SIGTERM: no batch is in progress")
            _halt(0)
        what = (
            f"batch {claim.record.number} is not committed: another attempt will process it"
            if claim
            else "no batch is claimed"
        )
        self._begin(f"ended by SIGTERM; {what}")
        if claim:
            _within(_STORAGE_SECONDS, lambda: claim.break_off(GRACE_SECONDS))
        _halt(TERMINATED)

    def give_up(self, message: str) -> NoReturn:
        """Exit with code 1; wait instead if the process is already ending for another reason."""
        if not self._begun.acquire(blocking=False):
            self.join()
        leave_termination_message(message)
        sys.exit(1)

    def join(self) -> None:
        """Wait for the end of this process if it has begun: an error may be a consequence of the halted JVM."""
        if self._begun.locked():
            time.sleep(_STORAGE_SECONDS + _HALT_SECONDS + 1)

    def _begin(self, message: str) -> None:
        # A second caller waits for the first, which never returns.
        self._begun.acquire()
        leave_termination_message(message)


def leave_termination_message(message: str) -> None:
    """Write the cause into the log and the pod's status."""
    log.error("%s", redact(message))
    leave_message(redact(message))


def leave_message(message: str) -> None:
    """Write the termination message, if this is a pod."""
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(clean_line(message)[:_MAX_CHARACTERS])


def _halt(code: int) -> NoReturn:
    """End the JVM and this process, without waiting for either."""
    _within(_HALT_SECONDS, lambda: _halt_java(code))
    for stream in (sys.stdout, sys.stderr):
        _within(_HALT_SECONDS, stream.flush)
    os._exit(code)


def _ignore_in_java() -> None:
    SparkContext._ensure_initialized()  # connects to Java, before a session
    java: Any = SparkContext._jvm
    # Java's own handler shuts the JVM down (Troubleshooting Guide of Java 17, "Handle Signals and Exceptions").
    java.sun.misc.Signal.handle(java.sun.misc.Signal("TERM"), java.sun.misc.SignalHandler.SIG_IGN)


def _halt_java(code: int) -> None:
    if (java := SparkContext._jvm) is not None:
        java.java.lang.Runtime.getRuntime().halt(code)


def _within(seconds: float, effect: Callable[[], object]) -> None:
    """Try a call with a time limit; the result is ignored."""

    def attempt() -> None:
        try:
            effect()
        except Exception as error:
            # A halted JVM does not respond.
            log.debug("while ending: %s", redact(str(error)))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
