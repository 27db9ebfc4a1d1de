"""The EventProcessorHost layout: names and bodies of lease blobs with the keys of that library.

Reading is lenient (`eventconsumer_api.wire.legacylease`), writing is strict: with the keys and the order of the Java or
of the .NET library. The Java library reads only its own keys (Gson compares the case: `AzureBlobLease` and
`CompleteLease` of azure-eventhubs-eph 3.3.0), and the JavaScript library has the same. The .NET library reads both
(Json.NET does not compare the case: https://learn.microsoft.com/dotnet/standard/serialization/system-text-json/migrate-from-newtonsoft).
Bodies have a size limit, and every other content is `LeaseInvalid`: a damaged lease never counts as a new one.

The libraries ignore the sequence number of a lease without an offset, and write 0. Here it is -1 (also of a lease that
has only an offset, until its number is found), because KEDA's scaler
does not ignore it: `last - 0` is one event too few, and one event in an idle partition would not count
(https://github.com/kedacore/keda/blob/v2.21.0/pkg/scalers/azure_eventhub_scaler.go, calculateUnprocessedEvents).

The metadata has a copy of the body, so that one listing shows all leases. Other programs and persons keep the metadata
and write another body, so the copy counts only while its MD5 is that of the body. Storage computes it at each put, and
listings include it: https://learn.microsoft.com/rest/api/storageservices/put-blob (Content-MD5).
"""

import json
from collections.abc import Mapping
from hashlib import md5

from eventconsumer_api.v1alpha1 import LeaseDialect
from eventconsumer_api.wire import legacylease
from eventconsumer_api.wire.legacylease import START_OF_STREAM
from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease.model import NO_NUMBER, Checkpoint, Lease

MAX_BODY_BYTES = 16 * 1024
OWNER_METADATA = "OWNINGHOST"
BODY_METADATA = "LEASE"


def blob_name(prefix: str, consumer_group: str, partition: str) -> str:
    """Name of a partition's lease blob, with the unchanged prefix and no separator."""
    return f"{blob_prefix(prefix, consumer_group)}{partition}"


def blob_prefix(prefix: str, consumer_group: str) -> str:
    """Prefix of the names of all lease blobs of a consumer group."""
    return f"{prefix.strip()}{consumer_group}/"


def encode_metadata(lease: Lease, body: bytes) -> dict[str, str]:
    """Metadata of a lease blob with this body; a copy with other than ASCII characters is not possible."""
    owner = {OWNER_METADATA: lease.owner} if lease.owner else {}
    return owner | ({BODY_METADATA: body.decode()} if body.isascii() else {})


def body_in(metadata: Mapping[str, str], digest: bytes) -> bytes | None:
    """The copy of the body in the metadata; None if there is none, or the body is another one by its MD5."""
    body = metadata.get(BODY_METADATA, "").encode()
    return body if body and md5(body, usedforsecurity=False).digest() == digest else None


def encode(lease: Lease, *, java: bool) -> bytes:
    """Body of a lease blob, with the keys of the Java or of the .NET library."""
    checkpoint = lease.checkpoint
    offset = checkpoint.offset if checkpoint else None
    number = checkpoint.sequence_number if checkpoint else NO_NUMBER
    if java:
        body: dict[str, object] = {} if offset is None else {"offset": offset}
        body |= {
            "sequenceNumber": number,
            "token": lease.token,
            "epoch": lease.epoch,
            "partitionId": lease.partition,
            "owner": lease.owner,
        }
    else:
        body = {
            "Offset": offset,
            "SequenceNumber": number,
            "PartitionId": lease.partition,
            "Owner": lease.owner,
            "Token": lease.token,
            "Epoch": lease.epoch,
        }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def dialect_of(data: bytes) -> LeaseDialect:
    """The dialect of a body, perhaps a damaged one; `Auto` if it cannot be seen."""
    if b'"sequenceNumber"' in data or b'"partitionId"' in data:
        return LeaseDialect.JAVA
    if b'"SequenceNumber"' in data or b'"PartitionId"' in data:
        return LeaseDialect.DOT_NET
    return LeaseDialect.AUTO


def decode(data: bytes, partition: str) -> Lease:
    """The lease in a body.

    Raises:
        LeaseInvalid: It is too large, not the JSON object of a lease, or of another partition.
    """
    if len(data) > MAX_BODY_BYTES:
        raise LeaseInvalid(f"it is larger than {MAX_BODY_BYTES} bytes")
    try:
        found = legacylease.parse(data)
    except ValueError as error:
        raise LeaseInvalid(str(error)) from None
    if found.partition and found.partition != partition:
        raise LeaseInvalid(f"its PartitionId is {found.partition!r}")
    checkpoint = None
    if found.offset:
        number = NO_NUMBER if found.offset == START_OF_STREAM or found.number is None else found.number
        checkpoint = Checkpoint(found.offset, number)
    return Lease(partition, found.owner, found.token, found.epoch, checkpoint)
