"""A person who runs `hub accept`: with nobody else at work, and with storage and hub at hand."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_host.identity.segments import list_segments
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.source.hub import Hub
from eventconsumer_storage.confined.reader import Blobs
from eventconsumer_tools.commands.accept import Accepting
from tests.simulation.history import History
from tests.support.fakes.blobs import EPOCH, FakeBlobStore


async def go_on(
    config: HostConfig, hub: Hub, leases: FakeBlobStore, sink: FakeBlobStore, now: Callable[[], float], history: History
) -> str:
    """Accept the hub as it is, where that is needed and possible; what came of it."""
    try:
        info = await hub.describe()
        segments = await list_segments(sink, config.sink.prefix)
        if not segments:
            return "no host has registered yet"
        found = await lease_store(config, info, leases, now).existing()
        if any(lease.leased for lease in found):
            return "somebody holds a lease"
        known = {lease.partition: lease for lease in found}
        person = Accepting(config, hub, info, sink, leases, segments, known, partial(decode, history))
        ends = await person.examine()
        if any(end.foreign for end in ends):
            return "a checkpoint is behind the files"
        if not any(end.diverged or end.sealed for end in ends):
            return "files and hub agree"
        segment, _ = await person.accept(EPOCH + timedelta(seconds=now()))
    except EventConsumerError as error:
        return f"not accepted: {error}"
    return f"segment {segment.number} begins"


async def decode(history: History, _: str, content: Blobs) -> list[tuple[int, str, int]]:
    """A file of `tests.simulation.host.encode`: partition and life of an event are in its body."""
    found: list[tuple[int, str, int]] = []
    for number, body in json.loads(await content.read(0, content.size)):
        _, life, partition, _ = str(body).partition("~")[0].split("/")
        event = history.find(partition, body)
        found.append((number, str(number * 10 + int(life)), event.time if event else 0))
    return found
