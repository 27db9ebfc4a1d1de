"""The EventProcessorHost layout: names and bodies of lease blobs, byte for byte as in that library.

Reading is lenient (any key order, the Java library's camelCase keys, absent values), writing is strict: in the .NET
library's order, or with the Java library's keys if the blob has them, because that library reads no others. Bodies have
a size limit, and every other content is `LeaseInvalid`: a damaged lease never counts as a new one.
"""

import json

from eventconsumer_processor.errors import LeaseInvalid
from eventconsumer_processor.lease.model import Checkpoint, Lease

MAX_BODY_BYTES = 16 * 1024
OWNER_METADATA = "OWNINGHOST"
START_OF_STREAM = "-1"  # an offset: no event was read yet, whatever the sequence number


def blob_name(prefix: str, consumer_group: str, partition: str) -> str:
    """Name of a partition's lease blob, with the unchanged prefix and no separator."""
    return f"{blob_prefix(prefix, consumer_group)}{partition}"


def blob_prefix(prefix: str, consumer_group: str) -> str:
    """Prefix of the names of all lease blobs of a consumer group."""
    return f"{prefix.strip()}{consumer_group}/"


def encode_metadata(lease: Lease) -> dict[str, str]:
    """Metadata of a lease blob with an owner."""
    return {OWNER_METADATA: lease.owner}


def encode(lease: Lease) -> bytes:
    """Body of a lease blob."""
    checkpoint = lease.checkpoint
    offset = checkpoint.offset if checkpoint else None
    number = checkpoint.sequence_number if checkpoint else 0
    if lease.camel_case:
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


def decode(data: bytes, partition: str) -> Lease:
    """The lease in a body.

    Raises:
        LeaseInvalid: It is too large, not the JSON object of a lease, or of another partition.
    """
    if len(data) > MAX_BODY_BYTES:
        raise LeaseInvalid(f"it is larger than {MAX_BODY_BYTES} bytes")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise LeaseInvalid("it is not JSON") from None
    if not isinstance(body, dict):
        raise LeaseInvalid("it is not a JSON object")
    values = {str(key).lower(): value for key, value in body.items()}
    if "partitionid" not in values and "epoch" not in values:
        raise LeaseInvalid("it has neither PartitionId nor Epoch")
    named = _text(values, "partitionid")
    if named and named != partition:
        raise LeaseInvalid(f"its PartitionId is {named!r}")
    return Lease(
        partition=partition,
        owner=_text(values, "owner"),
        token=_text(values, "token"),
        epoch=_integer(values, "epoch", default=0),
        checkpoint=_checkpoint(values),
        camel_case="partitionId" in body,
    )


def _checkpoint(values: dict[str, object]) -> Checkpoint | None:
    offset, number = _text(values, "offset"), _integer(values, "sequencenumber", default=0)
    if not offset:
        return None
    return Checkpoint(offset, -1 if offset == START_OF_STREAM else number)


def _text(values: dict[str, object], key: str) -> str:
    value = values.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LeaseInvalid(f"its {key} is not text")
    return value


def _integer(values: dict[str, object], key: str, default: int) -> int:
    value = values.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise LeaseInvalid(f"its {key} is not an integer")
    return value
