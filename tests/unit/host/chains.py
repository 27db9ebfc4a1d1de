"""Chains for tests: drafts, clocks, and both layouts by name."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from eventconsumer_host.prune.tombstones import CapturedContent, Doomed, replace_with_tombstone
from eventconsumer_host.sink.capture import CaptureChain
from eventconsumer_host.sink.slots import Chain, Draft, Slot
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore

NOON = datetime(2026, 11, 21, 12, 0, 0, 700_000, tzinfo=UTC)
HUB = HubInfo("shop.example", "orders", datetime(2026, 1, 1, tzinfo=UTC), ("0",))
LAYOUTS = ["SequenceNumber", "Capture"]
PLACE = ("era", "0")


def draft(start: int, last: int, nonce: str = "mine", epoch: int = 1) -> Draft:
    """A file about to be committed."""
    return Draft(start, start, last, last - start + 1, epoch, f"host-{nonce}", nonce, str(last * 10), NOON)


def chain(layout: str, blobs: BlobStore, now: Callable[[], datetime] = lambda: NOON) -> Chain:
    """A chain in a layout."""
    if layout == "Capture":
        return CaptureChain(blobs, "p", *PLACE, HUB, now=now)
    return Chain(blobs, "p", *PLACE, now=now)


async def tombstone(blobs: BlobStore, files: Chain, slot: Slot) -> bool:
    """Prune one file."""
    info = await blobs.head(files.path(slot.start))
    assert info is not None
    if slot.path == info.name:
        file = Doomed(info.name, slot.etag)
    else:
        file = Doomed(info.name, info.etag, CapturedContent(slot.path, slot.etag))
    return await replace_with_tombstone(blobs, file, NOON)


class Seconds:
    """A wall clock that is a second later at every look."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return NOON + timedelta(seconds=self.looks - 1)
