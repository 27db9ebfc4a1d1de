"""Host liveness: which pods exist, which are ready, and which owners have ended, for operator messages. Pure.

An owner (`identity.owner_id`) has ended when its pod object does not exist, or all its containers have terminated for
good. Absence from the store is not enough, because the store may be outdated: a direct read of the API server must not
find the pod either. A uid is never used again, so one such read is enough. A pod that is being deleted still exists,
and may still write. A wrong message costs hosts some moves of partitions, and never an event.

After a restart of the operator only reports of hosts name the owners whose pods ended before. A report may be false, so
their number, the number of direct reads, and the size of a message are limited. Leases of other owners expire.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.fleet import FleetMessage, deaf_hosts
from eventconsumer_api.wire.host_report import HostState
from eventconsumer_api.wire.identity import owner_id
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of
from eventconsumer_operator.resource.names import host_name, hosts_set
from eventconsumer_operator.resource.observed import Observed

REMEMBERED = timedelta(minutes=10)  # longer than any lease: an owner that ended may hold leases until they expire
NAMED_MAX = 1024  # owners that were never observed as pods; a resource has at most 1,024 hosts
NAMED_SECONDS = timedelta(seconds=30)  # between two direct reads for such owners
# Of the owners in a message. With the names of 1,024 ready pods, 61 KiB, a message has less than FLEET_MAX_BYTES.
GONE_MAX_BYTES = 192 * 1024
_HOST = re.compile(r"-(0|[1-9][0-9]{0,3})\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # ordinal and uid


@dataclass(frozen=True)
class Liveness:
    """Memory of one resource's hosts between reconciles.

    Attributes:
        known: Owners that were observed as pods and are not known to have ended.
        gone: Owners that have ended, with the time when this became known.
        named: Those of `gone` that were never observed as pods: a report of a host named them.
        named_at: Time of the last suspicion against such owners; None: never.
    """

    known: frozenset[str] = frozenset()
    gone: Mapping[str, datetime] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    named_at: datetime | None = None


def look(before: Liveness, observed: Observed) -> tuple[Liveness, frozenset[str]]:
    """Update the memory.

    Returns:
        The new memory, and the owners without a pod, which a direct read must confirm.
    """
    now, resource = observed.now, observed.consumer.reference.path
    present = {owner_of(resource, pod) for pod in observed.pods}
    ended = {owner_of(resource, pod) for pod in observed.pods if _has_ended(pod)}
    holders = _holders(observed)
    known = (before.known | present) - before.gone.keys() - ended
    gone = {owner: since for owner, since in before.gone.items() if now - since < REMEMBERED}
    gone |= dict.fromkeys(before.gone.keys() & holders | ended, now)
    named = before.named & gone.keys() - ended
    unknown: list[str] = []
    if before.named_at is None or now - before.named_at >= NAMED_SECONDS:
        unknown = sorted(holders - known - gone.keys())[: NAMED_MAX - len(named)]
    liveness = Liveness(frozenset(known), gone, frozenset(named), now if unknown else before.named_at)
    return liveness, frozenset(known - present).union(unknown)


def confirm(
    liveness: Liveness, suspects: Collection[str], resource: str, pods: Iterable[Manifest], now: datetime
) -> Liveness:
    """Mark suspects as ended if a direct read does not find their pods."""
    ended = set(suspects) - {owner_of(resource, pod) for pod in pods}
    return replace(
        liveness,
        known=liveness.known - ended,
        gone=dict(liveness.gone) | dict.fromkeys(ended, now),
        named=liveness.named | (ended - liveness.known),
    )


def message(observed: Observed, liveness: Liveness, hosts: int, generation: int) -> FleetMessage:
    """The operator message.

    Args:
        observed: The observed state.
        liveness: The updated memory.
        hosts: Desired number of hosts.
        generation: Greater than that of any earlier message.
    """
    return FleetMessage(
        resource=observed.consumer.reference.path,
        generation=generation,
        time=observed.now,
        hosts=hosts,
        partitions=observed.partition_count if observed.reports else None,
        ready=tuple(sorted(name_of(pod) for pod in observed.pods if _takes(observed, pod, hosts))),
        deaf=_deaf(observed),
        gone=tuple(sorted(_gone(liveness))),
    )


def _deaf(observed: Observed) -> tuple[str, ...]:
    """Pods that do not hear the hub while others do."""
    reports = {name: report for pod in observed.pods if (report := observed.reports.get(name := name_of(pod)))}
    heard = {name: report.hub_silent_seconds for name, report in reports.items()}
    return deaf_hosts({name: seconds for name, seconds in heard.items() if seconds is not None})


def _gone(liveness: Liveness) -> Iterator[str]:
    """The owners for a message, up to its limit: owners that were observed as pods first, then the newest."""
    size = 0
    for owner, _ in sorted(liveness.gone.items(), key=lambda item: (item[0] in liveness.named, -item[1].timestamp())):
        size += len(owner) + len('"",')
        if size > GONE_MAX_BYTES:
            return
        yield owner


def owner_of(resource: str, pod: Manifest) -> str:
    """The owner id of the host in a pod of a resource, `<namespace>/<name>`."""
    return owner_id(resource, name_of(pod), pod["metadata"].get("uid", ""))


def _holders(observed: Observed) -> set[str]:
    """Owners of leases that are or were pods of these hosts, with the ordinal of a host that exists."""
    if observed.fleet is None:
        return set()
    first = f"{observed.consumer.reference.path}/{host_name(observed.consumer.key)}"
    owners = (owner for owner in observed.fleet.owners.values() if owner.startswith(first))
    found = {owner: _HOST.fullmatch(owner, len(first)) for owner in owners}
    hosts = _hosts(observed)
    return {owner for owner, match in found.items() if match and int(match[1]) < hosts}


def _hosts(observed: Observed) -> int:
    """The number of hosts that exist or existed recently: ordinals are below it."""
    replicas: int = hosts_set(observed).get("spec", {}).get("replicas", 0)
    ordinals = (int(name_of(pod).rpartition("-")[2]) for pod in observed.pods)
    return max(replicas, observed.consumer.status.replicas, max(ordinals, default=-1) + 1)


def _has_ended(pod: Manifest) -> bool:
    """Whether no container of a pod runs or will run again."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses", [])
    ended = all("terminated" in container.get("state", {}) for container in containers)
    return status.get("phase") in {"Succeeded", "Failed"} and bool(containers) and ended


def _takes(observed: Observed, pod: Manifest, hosts: int) -> bool:
    """Whether a host is ready, reads without a problem, and is not about to leave."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    report = observed.reports.get(name_of(pod))
    stays = int(name_of(pod).rpartition("-")[2]) < hosts and not is_being_deleted(pod)
    return ready and stays and report is not None and report.state is HostState.RUNNING
