"""Reads the world for one reconcile: the resource, its children, its pods, and what its hosts say."""

import asyncio
from collections.abc import Iterable, Set
from datetime import UTC, datetime

from eventconsumer_api import labels
from eventconsumer_operator.api import Api
from eventconsumer_operator.hosts import Hosts
from eventconsumer_operator.keys import Key
from eventconsumer_operator.manifest import (
    CONFIG_MAP,
    EVENT_CONSUMER,
    JOB,
    POD,
    SERVICE,
    STATEFUL_SET,
    Manifest,
    controller_uid,
    is_being_deleted,
    name_of,
)
from eventconsumer_operator.observed import Observed, consumer_from
from eventconsumer_operator.plan.names import host_name, selector

_FIXED = (CONFIG_MAP, SERVICE, STATEFUL_SET)


async def load(api: Api, hosts: Hosts, key: Key) -> Observed | None:
    """Read everything about one resource.

    Returns:
        None if it does not exist or is being deleted: then there is nothing to do, for its children go with it.

    Raises:
        Forbidden, Transient: The API server did not let us read.
    """
    manifest = await api.get(EVENT_CONSUMER, key.namespace, key.name)
    if manifest is None or is_being_deleted(manifest):
        return None
    consumer = consumer_from(manifest)
    name = host_name(key)
    fixed, jobs, pods = await asyncio.gather(
        asyncio.gather(*(api.get(kind, key.namespace, name) for kind in _FIXED)),
        api.list(JOB, key.namespace, selector(key, labels.COMPONENT_SPARK)),
        api.list(POD, key.namespace, {labels.LABEL_CONSUMER: key.name}),
    )
    stateful_set = fixed[_FIXED.index(STATEFUL_SET)]
    own_jobs = tuple(_owned(jobs, {consumer.uid}))
    own = tuple(_owned(pods, {stateful_set["metadata"]["uid"]})) if stateful_set else ()
    return Observed(
        now=datetime.now(UTC).replace(microsecond=0),
        consumer=consumer,
        children={(kind, name): found for kind, found in zip(_FIXED, fixed, strict=True) if found is not None},
        jobs=own_jobs,
        pods=own,
        drivers=tuple(_owned(pods, {job["metadata"]["uid"] for job in own_jobs})),
        reports=await hosts.reports(_addresses(own)),
    )


def _owned(manifests: Iterable[Manifest], uids: Set[str]) -> list[Manifest]:
    # Labels can be put on anything by anyone; an owner's uid says whose it is.
    return [manifest for manifest in manifests if controller_uid(manifest) in uids]


def _addresses(pods: Iterable[Manifest]) -> dict[str, str]:
    running = (pod for pod in pods if pod.get("status", {}).get("phase") == "Running")
    return {name_of(pod): pod["status"]["podIP"] for pod in running if pod["status"].get("podIP")}
