"""Files as the tools list them: names and metadata of slots, in both layouts of files."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Damaged
from eventconsumer_tools.inspect.files import dead_letters, file_in, slots

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {
    "first": "5",
    "last": "9",
    "count": "4",
    "epoch": "2",
    "nonce": "n",
    "last_offset": "90",
    "last_enqueued_time": "2026-01-01T00:00:00+00:00",
    "Gap": "retention:3-4",
}
SLOT = f"p/segment=e/partition=0/from={3:020d}"


def blob(name: str, **metadata: str) -> BlobInfo:
    """A blob of 100 bytes."""
    return BlobInfo(name, '"1"', 100, NOW, metadata)


async def test_only_names_of_slots_count() -> None:
    names = [
        f"{SLOT}.parquet",
        f"{SLOT}.avro",
        f"{SLOT}.json",
        f"{SLOT}.csv",
        "p/segment=e/partition=0/from=3.parquet",
        f"p/segment=e/partition=0/from={3:020d}.parquet/x",
        f"p/segment=other/partition=0/from={3:020d}.parquet",
    ]

    async def walk(prefix: str) -> AsyncIterator[BlobInfo]:
        for name in names:
            if name.startswith(prefix):
                yield blob(name)

    found = [(partition, start, info.name) async for partition, start, info in slots(walk, "p", "e")]
    assert found == [("0", 3, name) for name in names[:3]]


async def test_dead_letters_are_listed_by_partition() -> None:
    async def walk(prefix: str) -> AsyncIterator[BlobInfo]:
        assert prefix == "p/_deadletters/segment=e/"
        for name in (f"partition=0/seq={4:020d}.json", f"partition=0/seq={7:020d}.json", "partition=1/x.json"):
            yield blob(prefix + name)

    assert await dead_letters(walk, "p", "e") == {"0": [4, 7]}


def test_a_file_has_the_facts_of_its_metadata() -> None:
    file = file_in(blob(f"{SLOT}.parquet", **FACTS), 3)
    assert (file.path, file.size, file.first, file.last, file.count) == (f"{SLOT}.parquet", 100, 5, 9, 4)
    assert (file.start, file.epoch, file.gap, file.tombstone) == (3, 2, "retention:3-4", False)


def test_a_record_of_the_layout_capture_names_the_file() -> None:
    facts = FACTS | {"path": "p/ns/hub/0/x.avro", "size": "5000", "etag": "2"}
    file = file_in(blob(f"{SLOT}.json", **facts), 3)
    assert (file.path, file.size) == ("p/ns/hub/0/x.avro", 5000)
    assert file_in(blob(f"{SLOT}.json", **facts, tombstone="2026"), 3).size == 0


@pytest.mark.parametrize(
    ("suffix", "metadata"),
    [
        ("parquet", {}),
        ("parquet", FACTS | {"count": "x"}),
        ("json", FACTS),
        ("json", FACTS | {"path": "a", "size": "x"}),
    ],
)
def test_a_blob_that_is_no_file_is_named(suffix: str, metadata: dict[str, str]) -> None:
    with pytest.raises(Damaged, match=f"{SLOT}.{suffix}"):
        file_in(blob(f"{SLOT}.{suffix}", **metadata), 3)
