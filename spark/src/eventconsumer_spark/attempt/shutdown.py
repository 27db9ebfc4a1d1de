"""How a driver ends before its time: last words, no more writes, exit code.

A driver that lost its claim, or that is told to go (SIGTERM: suspended, deleted, timed out, node drained), must stop
writing before another attempt starts. So the JVM is halted, not shut down: its tasks are gone at once, and executors
that lose their driver exit by themselves. On SIGTERM the claim's lease is broken off first, to end a few seconds later:
the next attempt need not wait for it to expire, and still begins after this one.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pyspark import SparkContext

from eventconsumer_api.redaction import redact
from eventconsumer_spark.attempt.claim import Claim

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes takes a container's last words from; they end in the pod's status."""
TERMINATED = 128 + signal.SIGTERM
GRACE_SECONDS = 3
"""Between breaking a lease off and its end; the JVM is halted in it."""

_STORAGE_SECONDS = 5.0
_HALT_SECONDS = 2.0
_MAX_CHARACTERS = 4096  # As many as Kubernetes keeps.

log = logging.getLogger("eventconsumer.spark")


class Ending:
    """The end of this process, which has only one."""

    def __init__(self) -> None:
        self._claim: Claim | None = None
        self._begun = threading.Lock()

    def hold(self, claim: Claim | None) -> None:
        """What to break off on SIGTERM; None: nothing any more."""
        self._claim = claim

    def install(self) -> None:
        """End on SIGTERM, unless the program has its own way to, or asks from another thread than the main one."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
            # In a thread: the main one may be anywhere, holding any lock.
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=self.terminated, daemon=True).start())

    def lost(self, reason: str) -> None:
        """End because another attempt has taken over, or could have."""
        self._begin(reason)
        _halt(1)

    def terminated(self) -> None:
        """End because the process was told to."""
        claim = self._claim
        what = (
            f"batch {claim.record.number} is not committed: another attempt does it" if claim else "nothing was claimed"
        )
        self._begin(f"ended by SIGTERM; {what}")
        if claim:
            _within(_STORAGE_SECONDS, lambda: claim.break_off(GRACE_SECONDS))
        _halt(TERMINATED)

    def give_up(self, message: str) -> NoReturn:
        """Exit with code 1; wait instead where the process is ended already, for another reason."""
        if not self._begun.acquire(blocking=False):
            time.sleep(_STORAGE_SECONDS + _HALT_SECONDS + 1)
        termination_message(message)
        sys.exit(1)

    def _begin(self, message: str) -> None:
        # The second one to end waits for the first, which does not come back.
        self._begun.acquire()
        termination_message(message)


def termination_message(message: str) -> None:
    """Say why the driver ends, in the log and in the pod's status."""
    log.error("%s", redact(message))
    leave_message(redact(message))


def leave_message(message: str) -> None:
    """Put a message into the pod's status, where there is a pod."""
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(message[:_MAX_CHARACTERS])


def _halt(code: int) -> NoReturn:
    """End the JVM and this process, without waiting for either."""
    _within(_HALT_SECONDS, lambda: _halt_java(code))
    for stream in (sys.stdout, sys.stderr):
        _within(_HALT_SECONDS, stream.flush)
    os._exit(code)


def _halt_java(code: int) -> None:
    if (java := SparkContext._jvm) is not None:
        java.java.lang.Runtime.getRuntime().halt(code)


def _within(seconds: float, effect: Callable[[], object]) -> None:
    """Try something for so long; whether it succeeds does not matter any more."""

    def attempt() -> None:
        try:
            effect()
        except Exception as error:
            # A JVM that is halted does not answer.
            log.debug("while ending: %s", redact(str(error)))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
