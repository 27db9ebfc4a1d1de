"""The slot chain on real storage: one winner a slot, whatever the layout, the size and the other writers."""

import asyncio
import hashlib
from random import Random

import pytest

from eventconsumer_host.sink.commit import commit
from eventconsumer_host.sink.content import Content
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import StorageError
from tests.contract.conftest import ContainerWorld
from tests.support.fakes.blobs import put_blocks
from tests.unit.host.chains import LAYOUTS, chain, draft, tombstone


def content(fill: bytes, size: int, block_bytes: int = 1024**2) -> Content:
    """Content of so many bytes, in blocks."""
    return Content.of(*(fill * min(block_bytes, size - start) for start in range(0, size, block_bytes)))


async def write(blobs: BlobStore, layout: str, nonce: str, made: Content) -> Slot | None:
    """Commit to slot 5."""
    files, facts = chain(layout, blobs), draft(5, 8, nonce=nonce)
    return await commit(files, facts, made, check=lambda: None, failed=lambda _: None, rng=Random(nonce))


async def data_of(world: ContainerWorld, slot: Slot) -> bytes:
    """What a committed file holds."""
    blob = await world.other.read(slot.path, 64 * 1024**2)
    assert blob is not None and blob.info.etag == slot.etag and blob.info.size == slot.size
    return blob.data


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [0, 1000, 3 * 1024**2 + 7])
async def test_a_committed_file_is_read_back_as_it_was(world: ContainerWorld, layout: str, size: int) -> None:
    made = content(b"x", size)
    assert await write(world.blobs, layout, "a", made) is None
    slot = await chain(layout, world.other).at(5)
    assert slot is not None and (slot.first, slot.last, slot.nonce, slot.size) == (5, 8, "a", size)
    data = await data_of(world, slot)
    head = await world.blobs.head(chain(layout, world.blobs).path(5))
    assert head is not None
    assert head.metadata["sha256"] == hashlib.sha256(data).hexdigest() == made.sha256
    listed = await chain(layout, world.other).listed()
    assert listed == [slot]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(1000, 1000), (1000, 2 * 1024**2), (2 * 1024**2, 2 * 1024**2)])
async def test_two_writers_of_one_slot_agree(world: ContainerWorld, layout: str, sizes: tuple[int, int]) -> None:
    made = {"a": content(b"a", sizes[0]), "b": content(b"b", sizes[1])}
    answers = await asyncio.gather(
        write(world.blobs, layout, "a", made["a"]), write(world.other, layout, "b", made["b"])
    )
    slot = await chain(layout, world.blobs).at(5)
    assert slot is not None
    assert [answer.nonce if answer else None for answer in answers] == [
        None if nonce == slot.nonce else slot.nonce for nonce in made
    ]
    data = await data_of(world, slot)
    assert data == slot.nonce.encode() * made[slot.nonce].size
    files = [info for info in await world.blobs.list("p/") if not info.name.endswith(".json")]
    assert [info.name for info in files] == [slot.path]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_blocks_of_a_dead_writer_stop_nobody(world: ContainerWorld, layout: str) -> None:
    class Torn(Exception):
        pass

    def blocks() -> "list[bytes]":
        raise Torn

    name = chain(layout, world.blobs).path(5)
    with pytest.raises(Torn):
        await put_blocks(world.other, name, (block for part in ([b"dead"], None) for block in part or blocks()))
    assert await chain(layout, world.blobs).at(5) is None
    assert await write(world.blobs, layout, "a", content(b"a", 100)) is None
    slot = await chain(layout, world.other).at(5)
    assert slot is not None and await data_of(world, slot) == b"a" * 100


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_tombstone_keeps_the_slot_and_its_facts(world: ContainerWorld, layout: str) -> None:
    files = chain(layout, world.blobs)
    for start in (5, 9):
        await files.put(draft(start, start + 3, nonce=str(start)), content(b"x", 1000))
    before = await files.at(5)
    assert before is not None
    assert await tombstone(world.blobs, files, before)
    after = await chain(layout, world.other).at(5)
    assert after is not None
    assert (after.tombstone, after.size, after.last, after.nonce) == (True, 0, 8, "5")
    slots = await files.listed()
    assert [(slot.start, slot.tombstone) for slot in slots] == [(5, True), (9, False)]
    assert layout == "SequenceNumber" or await world.other.head(before.path) is None
    with pytest.raises(StorageError):
        await files.put(draft(5, 8, nonce="late"), content(b"x", 10))


async def test_the_slot_before_a_number_is_found(world: ContainerWorld) -> None:
    files = chain("SequenceNumber", world.blobs)
    for start in (3, 999, 1000, 123_456):
        await files.put(draft(start, start, nonce=str(start)), b"x")
    found = [await files.last_before(number) for number in (2, 3, 998, 1000, 99_999, 10**18)]
    assert [slot and slot.start for slot in found] == [None, 3, 3, 1000, 1000, 123_456]
