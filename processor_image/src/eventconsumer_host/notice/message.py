"""The notice about one file, in both formats. Pure.

Sources: github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md ("Structured Content
Mode") and formats/json-format.md; learn.microsoft.com/azure/event-grid/event-schema-event-hubs, whose names of the data
both formats use.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_host.sink.slots import Slot

TYPE = "io.eventconsumer.file.committed"
CAPTURE_TYPE = "Microsoft.EventHub.CaptureFileCreated"


@dataclass(frozen=True, slots=True)
class Origin:
    """The consumer that drains the files.

    Attributes:
        container: URL of the container of the files, without a slash at the end.
        prefix: Folder of the files.
        chain: Identity of the chain.
        hub: Name of the Event Hub.
    """

    container: str
    prefix: str
    chain: str
    hub: str


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """The request that carries a notice."""

    content_type: str
    body: bytes


def message(kind: NoticeFormat, origin: Origin, segment_id: str, partition: str, slot: Slot) -> NoticeMessage:
    """The notice about a file. The same file always has the same notice, so that receivers can drop repeated ones.

    Args:
        kind: Its format.
        origin: The consumer.
        segment_id: The segment of the file.
        partition: Partition id of the file.
        slot: The file; no tombstone.
    """
    identity = f"{origin.chain}/{segment_id}/{partition}/{slot.start}"
    earliest = slot.enqueued.earliest if slot.enqueued else slot.last_enqueued_time
    latest = slot.enqueued.latest if slot.enqueued else slot.last_enqueued_time
    data = {
        "fileUrl": f"{origin.container}/{_path(slot.path)}",
        "fileType": "AzureBlockBlob",
        "partitionId": partition,
        "sizeInBytes": slot.size,
        "eventCount": slot.count,
        "firstSequenceNumber": slot.first,
        "lastSequenceNumber": slot.last,
        "firstEnqueueTime": _time(earliest),
        "lastEnqueueTime": _time(latest),
    }
    if kind is NoticeFormat.EVENT_GRID:
        # Without `topic`: Event Grid sets it, and refuses an event that names another one.
        event = {
            "subject": f"eventhubs/{origin.hub}",
            "eventType": CAPTURE_TYPE,
            "eventTime": _time(slot.committed_at),
            "id": identity,
            "data": data,
            "dataVersion": "",
            "metadataVersion": "1",
        }
        return NoticeMessage("application/json; charset=utf-8", json.dumps([event]).encode())
    cloud_event = {
        "specversion": "1.0",
        "id": identity,
        "source": f"{origin.container}/{_path(origin.prefix)}",
        "type": TYPE,
        "subject": slot.path,
        "time": _time(slot.committed_at),
        "datacontenttype": "application/json",
        "data": data | {"fromSequenceNumber": slot.start},
    }
    return NoticeMessage("application/cloudevents+json; charset=utf-8", json.dumps(cloud_event).encode())


def _path(path: str) -> str:
    return quote(path, safe="/=")


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
