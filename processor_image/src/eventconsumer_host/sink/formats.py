"""Selects the format and the layout of a consumer's files: an encoder, and chains (see `chains`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.sink import avro, parquet
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.row_chunks import Encoder
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore


def files_of(
    config: HostConfig,
    info: HubInfo,
    segment: SegmentRecord,
    blobs: BlobStore,
    now: Callable[[], datetime] = utc_now,
    *,
    columns: Sequence[BodyColumn] = (),
) -> tuple[Encoder, Callable[[str], Chain]]:
    """The encoder and the chains of a consumer's files.

    Args:
        config: The consumer.
        info: Its hub.
        segment: The segment of the chain.
        blobs: The container of the files.
        now: Wall clock, in UTC.
        columns: The columns of bodies; only Parquet files have some.

    Returns:
        The encoder, which adds the hub and the segment to a file's metadata; and a factory of chains by partition.
    """
    encode: Encoder = avro.encode
    if config.files.format is FileFormat.PARQUET:
        encode = partial(parquet.encode, columns=columns)
    hub = {"hub": f"{info.namespace}/{info.name}", "segment": segment.segment_id}

    def encoder(batches: Sequence[EventBatch], partition: str, facts: Mapping[str, str]) -> Iterator[bytes]:
        return encode(batches, partition, {**facts, **hub})

    return encoder, chains_of(config, info, segment, blobs, now)
