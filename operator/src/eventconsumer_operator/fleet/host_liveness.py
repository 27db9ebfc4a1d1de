"""Which pods exist, which are ready, and whose owners have certainly ended: what hosts are told of each other. Pure.

An owner (`identity.owner_id`) has ended when its pod object is gone, or all its containers have terminated for good.
Absence from what is watched is not believed, because that may be older than a pod: a direct read, which the API server
answers with its newest state, must not find the pod either. Its uid was seen before and never comes again, so one such
read is enough. A pod that is being deleted still exists, and may still write. What is told wrongly costs hosts some
moves and never an event.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eventconsumer_api.fleet import FleetMessage
from eventconsumer_api.host_report import HostState
from eventconsumer_api.identity import owner_id
from eventconsumer_api.kinds import Manifest
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of
from eventconsumer_operator.resource.names import host_name
from eventconsumer_operator.resource.observed import Observed

REMEMBERED = timedelta(minutes=10)  # above any lease's duration: so long an owner that ended may still hold leases
_UID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Liveness:
    """What is remembered of one resource's hosts from look to look.

    Attributes:
        known: Owners that were seen and are not known to have ended.
        gone: Owners that have ended, and when that became known.
    """

    known: frozenset[str] = frozenset()
    gone: Mapping[str, datetime] = field(default_factory=dict)


def look(before: Liveness, observed: Observed) -> tuple[Liveness, frozenset[str]]:
    """Look again.

    Returns:
        The new memory, and the owners that have no pod, to be confirmed by a direct read.
    """
    resource = observed.consumer.reference.path
    present = {owner_of(resource, pod) for pod in observed.pods}
    ended = {owner_of(resource, pod) for pod in observed.pods if _has_ended(pod)}
    holders = _holders(observed)
    known = (before.known | present | holders) - before.gone.keys() - ended
    gone = {owner: since for owner, since in before.gone.items() if observed.now - since < REMEMBERED}
    gone |= dict.fromkeys(before.gone.keys() & holders | ended, observed.now)
    return Liveness(frozenset(known), gone), frozenset(known - present)


def confirm(
    liveness: Liveness, suspects: Collection[str], resource: str, pods: Iterable[Manifest], now: datetime
) -> Liveness:
    """Believe that suspects have ended whose pods a direct read does not find."""
    ended = set(suspects) - {owner_of(resource, pod) for pod in pods}
    return Liveness(liveness.known - ended, dict(liveness.gone) | dict.fromkeys(ended, now))


def message(observed: Observed, liveness: Liveness, hosts: int, generation: int) -> FleetMessage:
    """What the hosts are told.

    Args:
        observed: The world.
        liveness: After this look.
        hosts: Desired number of hosts.
        generation: Above that of any message before.
    """
    return FleetMessage(
        resource=observed.consumer.reference.path,
        generation=generation,
        time=observed.now,
        hosts=hosts,
        partitions=observed.partition_count if observed.reports else None,
        ready=tuple(sorted(name_of(pod) for pod in observed.pods if _takes(observed, pod, hosts))),
        gone=tuple(sorted(liveness.gone)),
    )


def owner_of(resource: str, pod: Manifest) -> str:
    """The owner id of the host in a pod of a resource, `<namespace>/<name>`."""
    return owner_id(resource, name_of(pod), pod["metadata"].get("uid", ""))


def _holders(observed: Observed) -> set[str]:
    """Owners of leases that are or were pods of these hosts."""
    if observed.fleet is None:
        return set()
    first = f"{observed.consumer.reference.path}/{host_name(observed.consumer.key)}"
    ours = re.compile(rf"{re.escape(first)}-\d+\.{_UID}")
    return {owner for owner in observed.fleet.owners.values() if ours.fullmatch(owner)}


def _has_ended(pod: Manifest) -> bool:
    """Whether nothing in a pod runs, or ever will again."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses", [])
    ended = all("terminated" in container.get("state", {}) for container in containers)
    return status.get("phase") in {"Succeeded", "Failed"} and bool(containers) and ended


def _takes(observed: Observed, pod: Manifest, hosts: int) -> bool:
    """Whether a host is ready, has no problem that keeps it from reading, and is to stay."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    report = observed.reports.get(name_of(pod))
    stays = int(name_of(pod).rpartition("-")[2]) < hosts and not is_being_deleted(pod)
    return ready and stays and report is not None and report.state is HostState.RUNNING
