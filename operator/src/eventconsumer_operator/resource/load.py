"""Reads the state for one reconcile: the resource, its children and pods from the store, and reports of its hosts."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_report import HostReport
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import (
    APPLICATION_KINDS,
    EVENT_CONSUMER,
    JOB,
    POD,
    STATEFUL_SET,
    controller_uid,
    is_being_deleted,
    name_of,
)
from eventconsumer_operator.kube.readers import older_reader
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.resource.hosts import Hosts
from eventconsumer_operator.resource.names import belongs, host_name, probe_name
from eventconsumer_operator.resource.observed import Observed, consumer_from


def objects_of(store: Store, key: Key) -> Observed | None:
    """Read the objects of one resource from the store; the state has no reports yet.

    Returns:
        None if it does not exist or is being deleted: garbage collection deletes its children.
    """
    manifest = store.get(EVENT_CONSUMER, key.namespace, key.name)
    if manifest is None or is_being_deleted(manifest):
        return None
    consumer = consumer_from(manifest)
    belonging = list(store.belonging(key))
    pods = [found for kind, found in belonging if kind == POD]
    applications = [
        found for kind, found in belonging if kind in APPLICATION_KINDS and _is_of(found, labels.COMPONENT_SPARK)
    ]
    children = {(kind, name_of(found)): found for kind, found in belonging if kind != POD}
    jobs = [found for kind, found in belonging if kind == JOB]
    own_applications = tuple(_owned(applications, {consumer.uid}))
    own_jobs = _owned(jobs, {consumer.uid})
    replays = tuple(job for job in own_jobs if _is_of(job, labels.COMPONENT_REPLAY))
    reprocess_jobs = tuple(job for job in own_jobs if _is_of(job, labels.COMPONENT_REPROCESS))
    spark_pods = [pod for pod in pods if _is_of(pod, labels.COMPONENT_SPARK)]
    # With some launchers the resource, not the application, owns the driver pod.
    drivers = tuple(_owned(spark_pods, {*_uids(own_applications), consumer.uid}))
    sets = [children.get((STATEFUL_SET, name)) for name in (host_name(key), probe_name(key))]
    own, probes = (
        tuple(_owned(pods, {each["metadata"]["uid"]})) if each and belongs(consumer, each) else () for each in sets
    )
    return Observed(
        now=datetime.now(UTC).replace(microsecond=0),
        consumer=consumer,
        older_reader=older_reader(manifest, store.same_hub(key)),
        children=children,
        applications=own_applications,
        pods=own,
        drivers=drivers,
        executors=tuple(_owned(spark_pods, _uids(drivers))),
        probes=probes,
        reprocess_jobs=reprocess_jobs,
        reprocess_pods=tuple(_owned(pods, _uids(reprocess_jobs))),
        replays=replays,
        replay_pods=tuple(_owned(pods, _uids(replays))),
    )


async def with_reports(
    observed: Observed, hosts: Hosts, known: Mapping[str, HostReport] = MappingProxyType({})
) -> Observed:
    """Add the reports of hosts, which are read over HTTP, except for those that are known already (by pod name)."""
    addresses = _addresses((*observed.pods, *observed.probes))
    read = await hosts.reports({name: address for name, address in addresses.items() if name not in known})
    return replace(
        observed,
        reports={name: report for name in addresses if (report := known.get(name) or read.get(name))},
        replay_reports=await hosts.reports(_addresses(observed.replay_pods)),
    )


def _is_of(manifest: Manifest, component: str) -> bool:
    return bool(manifest["metadata"]["labels"].get(labels.LABEL_COMPONENT) == component)


def _owned(manifests: Iterable[Manifest], uids: Set[str]) -> list[Manifest]:
    # Any client can set labels; the uid of the owner is reliable.
    found = (manifest for manifest in manifests if controller_uid(manifest) in uids)
    return sorted(found, key=name_of)


def _uids(manifests: Iterable[Manifest]) -> set[str]:
    return {manifest["metadata"]["uid"] for manifest in manifests}


def _addresses(pods: Iterable[Manifest]) -> dict[str, str]:
    running = (pod for pod in pods if pod.get("status", {}).get("phase") == "Running")
    return {name_of(pod): pod["status"]["podIP"] for pod in running if pod["status"].get("podIP")}
