"""A person who runs `hub accept`: with nobody else at work, and with storage and hub at hand."""

import json
from collections.abc import Callable
from datetime import timedelta

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.host_config import HostConfig
from eventconsumer_processor.identity.segments import list_segments
from eventconsumer_processor.lease.layouts import lease_store
from eventconsumer_processor.source.hub import Hub
from eventconsumer_processor.tools.accept import Accepting
from tests.support.fakes.blobs import EPOCH, FakeBlobStore
from tests.support.fakes.hub import enqueued_ms


async def go_on(
    config: HostConfig, hub: Hub, leases: FakeBlobStore, sink: FakeBlobStore, now: Callable[[], float]
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
        person = Accepting(config, hub, info, sink, leases, segments, known, decode)
        ends = await person.examine()
        if any(end.foreign for end in ends):
            return "a checkpoint is behind the files"
        if not any(end.diverged or end.sealed for end in ends):
            return "files and hub agree"
        segment, _ = await person.accept(EPOCH + timedelta(seconds=now()))
    except EventConsumerError as error:
        return f"not accepted: {error}"
    return f"segment {segment.number} begins"


def decode(_: str, data: bytes) -> list[tuple[int, str, int]]:
    """A file of `tests.simulation.host.encode`: an event's life is in its body."""
    lives = [(number, int(body.split("/")[1])) for number, body in json.loads(data)]
    return [(number, str(number * 10 + life), enqueued_ms(number, life)) for number, life in lives]
