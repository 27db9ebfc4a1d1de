"""Selects the layout of a consumer's files. Loads no encoder, which readers of the chain do not need."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from eventconsumer_api.v1alpha1 import FileFormat, FileLayout
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord, segment_name
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore

SUFFIXES = {FileFormat.PARQUET: ".parquet", FileFormat.AVRO: ".avro"}


def chains_of(
    config: HostConfig, info: HubInfo, segment: SegmentRecord, blobs: BlobStore, now: Callable[[], datetime] = utc_now
) -> Callable[[str], Chain]:
    """A factory of chains, by partition id.

    Args:
        config: The consumer.
        info: Its hub.
        segment: The segment of the chain.
        blobs: The container of the files.
        now: Wall clock, in UTC.
    """
    files, prefix = config.files, config.sink.prefix
    successor = segment_name(prefix, segment.number + 1)

    def chain(partition: str) -> Chain:
        place, opening = (blobs, prefix, segment.segment_id, partition), segment.breaks.get(partition)
        if files.layout is FileLayout.CAPTURE:
            from eventconsumer_host.sink.capture import CaptureChain  # with the encoder of its empty files

            hub = replace(info, name=segment.hub.name)  # its spelling in the configuration may change
            return CaptureChain(*place, hub, opening=opening, successor=successor, now=now)
        suffix = SUFFIXES[files.format]
        return Chain(*place, suffix=suffix, opening=opening, successor=successor, now=now)

    return chain
