"""Reads why the API server refuses pods: from the Events of the controllers that cannot create them.

Events are read only for objects whose pods are missing, and once in `PAUSE_SECONDS` for each. Without the permission,
or without an Event, the cause is unknown.
"""

import re
from datetime import timedelta

import structlog

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import EVENT
from eventconsumer_operator.resource.missing import Missing, missing
from eventconsumer_operator.resource.observed import Observed

_log = structlog.get_logger(__name__)

PAUSE_SECONDS = 30.0
GRACE = timedelta(seconds=10)  # a controller creates pods within seconds
CAUSE_LIMIT = 400  # characters
# Source: FailedCreatePodReason in pkg/controller/controller_utils.go, and recordPodEvent in
# pkg/controller/statefulset/stateful_pod_control.go of Kubernetes. Messages begin so (observed with Kubernetes 1.35;
# earlier versions write `create`).
REASON = "FailedCreate"
_HEAD = re.compile(r"(?i)(\(combined from similar events\): )?(create Pod .{1,300}? failed error: |Error creating: )")


class Refusals:
    """Reads causes, and remembers them for `PAUSE_SECONDS`."""

    def __init__(self, api: Api) -> None:
        """Read with `api`."""
        self._api = api
        self._read: dict[str, tuple[float, str]] = {}  # by uid: when it was read, event loop's clock, and the cause

    async def of(self, observed: Observed, now: float) -> dict[str, str]:
        """The causes by uid of the object; an object whose cause is unknown is absent.

        Args:
            observed: The state, with objects whose pods may be missing.
            now: Event loop's clock, seconds.
        """
        self._read = {uid: read for uid, read in self._read.items() if now - read[0] < PAUSE_SECONDS}
        found = {}
        for each in missing(observed):
            if observed.now - each.since < GRACE:
                continue
            if each.uid not in self._read:
                self._read[each.uid] = now, await self._cause(observed, each)
            if cause := self._read[each.uid][1]:
                found[each.uid] = cause
        return found

    async def _cause(self, observed: Observed, wanted: Missing) -> str:
        """The cause of the newest failure; a later one replaces a cause that was mended."""
        key = observed.consumer.key
        selected = {"involvedObject.uid": wanted.uid, "reason": REASON}
        try:
            listing = await self._api.list(EVENT, key.namespace, keep=_kept, fields=selected)
        except OperatorError as error:
            _log.info(
                "cannot read why pods are missing", namespace=key.namespace, object=wanted.owner, error=str(error)
            )
            return ""
        return max(((str(each["time"]), str(each["cause"])) for each in listing.items), default=("", ""))[1]


def _kept(event: Manifest) -> Manifest:
    """The time and the cause of an Event; clients of both Event APIs write it."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    written = event["metadata"].get("creationTimestamp", "")
    text = _HEAD.sub("", str(event.get("message", "")), count=1)
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {},
        "time": next(filter(None, times), written),
        "cause": text[:CAUSE_LIMIT],
    }
