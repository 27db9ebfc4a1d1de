"""The lease document of EventProcessorHost, in the dialects of all its libraries: the one parser of it.

Hosts, commands and the audit read these blobs, which other programs write:

    .NET Framework, .NET Standard   Offset, SequenceNumber, PartitionId, Owner, Token, Epoch
    Java, JavaScript                offset, sequenceNumber, partitionId, owner, token, epoch
    Python 1.x                      offset, sequence_number, partition_id, owner, token, epoch

All of them continue at the offset. The sequence number may be absent (the first versions for .NET Framework), 0 beside
any offset (a .NET library that read such a lease), or a text (Python). Json.NET and Gson read numbers from texts, too.
Sources: Azure/azure-event-hubs-dotnet (`Lease.cs`, `AzureBlobLease.cs`, `JsonConvertOptions.cs`),
Azure/azure-event-hubs-java (`AzureBlobLease.java`), Azure/azure-event-hubs-node (`azureBlobLease.ts`), azure-eventhub
1.0.0 to 1.3.3 (`azure_blob_lease.py`, `checkpoint.py`), and
https://learn.microsoft.com/dotnet/api/microsoft.servicebus.messaging.lease.
"""

import json
import re
from dataclasses import dataclass

LONG_MAX = 2**63 - 1  # of the numbers: all libraries have signed integers of 64 bits
START_OF_STREAM = "-1"  # an offset: no event was read yet, whatever the sequence number
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class LeaseDocument:
    """The content of one lease; absent, null and empty values are the same."""

    partition: str = ""
    owner: str = ""
    token: str = ""
    epoch: int = 0
    offset: str = ""
    number: int | None = None  # None: absent, or negative

    @property
    def needs_offset(self) -> bool:
        """Whether only the offset is a valid position: the sequence number is absent, or 0 beside any offset."""
        return self.offset not in {"", START_OF_STREAM} and not self.number


def parse(data: bytes) -> LeaseDocument:
    """The lease in a blob.

    Raises:
        ValueError: It is no lease; the text gives the cause, as a clause about "it".
    """
    try:
        pairs = json.loads(data, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(pairs, tuple):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - a value of the blob
    body = _values(pairs)
    if "partitionid" not in body and "epoch" not in body:
        raise ValueError("it has neither PartitionId nor Epoch")
    number = _integer(body, "sequencenumber")
    return LeaseDocument(
        partition=_text(body, "partitionid"),
        owner=_text(body, "owner"),
        token=_text(body, "token"),
        epoch=_integer(body, "epoch") or 0,
        offset=_text(body, "offset"),
        number=number if number is not None and number >= 0 else None,
    )


def _values(pairs: tuple[tuple[str, object], ...]) -> dict[str, object]:
    """Values by the key in lower case and without underscores: one library may have added its keys to another's."""
    found: dict[str, object] = {}
    for key, value in pairs:
        name = key.replace("_", "").lower()
        known = found.get(name)
        if known not in (None, "") and value not in (None, "") and known != value:
            raise ValueError(f"it has two values of {key}")
        found[name] = value if known in (None, "") else known
    return found


def _text(body: dict[str, object], key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"its {key} is not text")  # noqa: TRY004 - a value of the blob
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON allows it (RFC 8259, section 8.2), UTF-8 does not
        raise ValueError(f"its {key} is not valid Unicode") from None
    return value


def _integer(body: dict[str, object], key: str) -> int | None:
    value = body.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -LONG_MAX - 1 <= value <= LONG_MAX:
        raise ValueError(f"its {key} is not an integer of 64 bits")
    return value
