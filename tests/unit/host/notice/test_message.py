"""What a notice says."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_host.notice.message import NoticeMessage, Origin, message
from eventconsumer_host.sink.slots import EnqueuedRange, Slot
from tests.unit.host.chains import NOON

ORIGIN = Origin("https://shop.blob.core.windows.net/drained", "shop/orders", "c1", "orders")
SLOT = Slot(
    path="shop/orders/segment=era/partition=0/from=00000000000000000017.parquet",
    etag='"1"',
    size=5000,
    committed_at=NOON,
    start=17,
    first=18,
    last=40,
    count=20,
    epoch=1,
    nonce="n",
    last_offset="9",
    last_enqueued_time=NOON,
    enqueued=EnqueuedRange(NOON - timedelta(seconds=9), NOON + timedelta(seconds=1)),
)
DATA: dict[str, Any] = {
    "fileUrl": f"https://shop.blob.core.windows.net/drained/{SLOT.path}",
    "fileType": "AzureBlockBlob",
    "partitionId": "0",
    "sizeInBytes": 5000,
    "eventCount": 20,
    "firstSequenceNumber": 18,
    "lastSequenceNumber": 40,
    "firstEnqueueTime": "2026-11-21T11:59:51.700Z",
    "lastEnqueueTime": "2026-11-21T12:00:01.700Z",
}


def made(kind: NoticeFormat, slot: Slot = SLOT, origin: Origin = ORIGIN) -> NoticeMessage:
    return message(kind, origin, "era", "0", slot)


def test_a_cloud_event() -> None:
    found = made(NoticeFormat.CLOUD_EVENTS)
    assert found.content_type == "application/cloudevents+json; charset=utf-8"
    assert json.loads(found.body) == {
        "specversion": "1.0",
        "id": "c1/era/0/17",
        "source": "https://shop.blob.core.windows.net/drained/shop/orders",
        "type": "io.eventconsumer.file.committed",
        "subject": SLOT.path,
        "time": "2026-11-21T12:00:00.700Z",
        "datacontenttype": "application/json",
        "data": DATA | {"fromSequenceNumber": 17},
    }


def test_an_event_of_event_grid_has_the_schema_of_capture() -> None:
    found = made(NoticeFormat.EVENT_GRID)
    assert found.content_type == "application/json; charset=utf-8"
    assert json.loads(found.body) == [
        {
            "subject": "eventhubs/orders",
            "eventType": "Microsoft.EventHub.CaptureFileCreated",
            "eventTime": "2026-11-21T12:00:00.700Z",
            "id": "c1/era/0/17",
            "data": DATA,
            "dataVersion": "",
            "metadataVersion": "1",
        }
    ]


def test_a_file_without_events_has_the_time_of_the_last_event() -> None:
    data = json.loads(made(NoticeFormat.CLOUD_EVENTS, replace(SLOT, count=0, enqueued=None)).body)["data"]
    assert data["firstEnqueueTime"] == data["lastEnqueueTime"] == "2026-11-21T12:00:00.700Z"


def test_a_path_is_encoded_in_the_url_only() -> None:
    event = json.loads(made(NoticeFormat.CLOUD_EVENTS, replace(SLOT, path="a b/ä#?.avro")).body)
    assert event["data"]["fileUrl"] == "https://shop.blob.core.windows.net/drained/a%20b/%C3%A4%23%3F.avro"
    assert event["subject"] == "a b/ä#?.avro"
