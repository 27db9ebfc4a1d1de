"""Logs of several pods as one stream; the set of pods may change.

A separate thread for each pod puts lines into one queue. A pod that is no longer in the set is read until its log ends,
because its last lines show the hand-over of the partition. The threads are daemons: they do not keep the program from
ending.
"""

import queue
import threading
import time
from collections.abc import Iterator

from eventconsumer_cli.errors import CliError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.loglines import LogLine, parse

_AGAIN_SECONDS = 2


class LogFollower:
    """Reads logs of pods in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, container: str) -> None:
        """Read `container` in each pod."""
        self._cluster = cluster
        self._namespace = namespace
        self._container = container
        self._lines: queue.Queue[LogLine] = queue.Queue(maxsize=10_000)
        self._reading: dict[str, threading.Thread] = {}
        self._ended: dict[str, float] = {}

    def read(self, pod: str, *, tail: int | None, since: int | None) -> None:
        """Read a pod's log, unless it is being read. If it ended before, continue after its end."""
        thread = self._reading.get(pod)
        if thread is not None and thread.is_alive():
            return
        if pod in self._ended:
            gone = time.monotonic() - self._ended[pod]
            if gone < _AGAIN_SECONDS:
                return
            tail, since = None, max(1, round(gone))
        thread = threading.Thread(target=self._run, args=(pod, tail, since), name=f"log of {pod}", daemon=True)
        self._reading[pod] = thread
        thread.start()

    def lines(self, seconds: float) -> Iterator[LogLine]:
        """Lines that arrive within so many seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                yield self._lines.get(timeout=left)
            except queue.Empty:
                return

    def _run(self, pod: str, tail: int | None, since: int | None) -> None:
        try:
            for line in self._cluster.logs(self._namespace, pod, self._container, follow=True, tail=tail, since=since):
                self._lines.put(parse(pod, line))
        except CliError:
            pass  # the pod was deleted, or its container is not running yet: it is read again while it is in the set
        finally:
            self._ended[pod] = time.monotonic()
