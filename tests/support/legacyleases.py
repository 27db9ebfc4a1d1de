"""Lease documents as the old libraries write them: golden documents of each dialect.

Sources, read in July to November 2026:

- .NET Framework: `Lease` of WindowsAzure.ServiceBus and Microsoft.Azure.ServiceBus.EventProcessorHost
  (learn.microsoft.com/dotnet/api/microsoft.servicebus.messaging.lease); its first versions had no sequence number.
- .NET Standard: Azure/azure-event-hubs-dotnet, `Lease.cs` and `AzureBlobLease.cs` (Json.NET writes the derived class
  first); a version wrote indented text, keys in camel case and no nulls (`Options/JsonConvertOptions.cs`).
- Java: `AzureBlobLease.java` and `Lease.java` of azure-eventhubs-eph (Gson leaves nulls out).
- JavaScript: `azureBlobLease.ts` of @azure/event-processor-host.
- Python: `lease.py` and `azure_blob_lease.py` of azure-eventhub 1.0.0 to 1.3.3, whose default sequence number is a text
  (`checkpoint.py`).
"""

import json
from typing import Any

_DOT_NET = ("Offset", "SequenceNumber", "PartitionId", "Owner", "Token", "Epoch")
_DOT_NET_FRAMEWORK = ("PartitionId", "Owner", "Token", "Epoch", "Offset", "SequenceNumber")
_CAMEL = ("offset", "sequenceNumber", "partitionId", "owner", "token", "epoch")
_PYTHON = ("offset", "sequence_number", "partition_id", "owner", "token", "epoch")

KEYS: tuple[tuple[str, ...], ...] = (_DOT_NET, _CAMEL, _PYTHON)
"""Spellings of offset, sequence number, partition, owner, token and epoch."""

DIALECTS = (
    "net-framework-old",
    "net-framework",
    "net-standard",
    "net-standard-indented",
    "net-standard-upgraded",
    "java",
    "javascript",
    "python-1",
    "python-1-default",
)
WITHOUT_NUMBER = ("net-framework-old", "net-standard-upgraded", "python-1-default")


def document(dialect: str, partition: str, offset: str, number: int, epoch: int = 3) -> bytes:
    """A released lease; the dialects of `WITHOUT_NUMBER` leave the sequence number out, or write 0."""
    net: dict[str, Any] = dict(zip(_DOT_NET, (offset, number, partition, "", "", epoch), strict=True))
    camel: dict[str, Any] = dict(zip(_CAMEL, (offset, number, partition, "", "", epoch), strict=True))
    python: dict[str, Any] = {"partition_id": partition, "sequence_number": number, "owner": "", "token": ""}
    python |= {"epoch": epoch, "event_processor_context": None, "offset": offset}
    match dialect:
        case "net-framework-old":
            return _compact({key: net[key] for key in _DOT_NET_FRAMEWORK[:-1]})
        case "net-framework":
            return _compact({key: net[key] for key in _DOT_NET_FRAMEWORK})
        case "net-standard":
            return _compact(net)
        case "net-standard-indented":
            return json.dumps(camel, indent=2).encode()
        case "net-standard-upgraded":
            return _compact(net | {"SequenceNumber": 0})
        case "java":
            return _compact(
                {key: camel[key] for key in ("offset", "sequenceNumber", "token", "epoch")}
                | {key: camel[key] for key in ("partitionId", "owner")}
            )
        case "javascript":
            return _compact({key: camel[key] for key in ("partitionId", "owner", "token", "epoch")} | camel)
        case "python-1":
            return json.dumps(python).encode()
        case "python-1-default":
            return json.dumps(python | {"sequence_number": "0"}).encode()
    raise ValueError(dialect)


def _compact(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
