"""What the host relies on in a blob container."""

import asyncio
from collections.abc import Iterator
from hashlib import md5

import pytest

from eventconsumer_storage.errors import Conflict, NotFound, Refused
from tests.contract.conftest import ContainerWorld
from tests.support.fakes.blobs import FOREVER, put_blocks

ONE = "11111111-1111-1111-1111-111111111111"
TWO = "22222222-2222-2222-2222-222222222222"


async def test_container_is_created_once(world: ContainerWorld) -> None:
    await world.blobs.ensure_container()
    await world.other.ensure_container()


async def test_a_blob_is_read_as_written(world: ContainerWorld) -> None:
    etag = await world.blobs.put("a/b", b"content", metadata={"first": "1"})
    blob = await world.other.read("a/b", 100)
    assert blob is not None
    assert (blob.data, blob.info.etag, blob.info.size, dict(blob.info.metadata)) == (
        b"content",
        etag,
        7,
        {"first": "1"},
    )
    assert await world.blobs.head("a/b") == blob.info


async def test_reads_are_capped_and_empty_blobs_read_as_empty(world: ContainerWorld) -> None:
    await world.blobs.put("large", b"x" * 1000)
    await world.blobs.put("empty", b"")
    large, empty = await world.blobs.read("large", 10), await world.blobs.read("empty", 10)
    assert large is not None and large.data == b"x" * 10
    assert empty is not None and empty.data == b""


async def test_a_range_is_of_one_version(world: ContainerWorld) -> None:
    etag = await world.blobs.put("large", bytes(range(200)))
    assert await world.other.read_range("large", 10, 5, if_match=etag) == bytes(range(10, 15))
    await world.blobs.put("large", b"x" * 200)
    with pytest.raises(Conflict):
        await world.other.read_range("large", 10, 5, if_match=etag)
    with pytest.raises((NotFound, Conflict)):  # Azurite says that the condition is not met
        await world.other.read_range("no", 10, 5, if_match=etag)


async def test_absent_blobs_are_none(world: ContainerWorld) -> None:
    assert await world.blobs.head("no") is None
    assert await world.blobs.read("no", 10) is None


async def test_put_if_absent_lets_one_win(world: ContainerWorld) -> None:
    await world.blobs.put("slot", b"mine", if_absent=True)
    with pytest.raises(Conflict) as raised:
        await world.other.put("slot", b"yours", if_absent=True)
    assert raised.value.code == "BlobAlreadyExists"
    blob = await world.blobs.read("slot", 10)
    assert blob is not None and blob.data == b"mine"


async def test_put_if_match_refuses_a_stale_writer(world: ContainerWorld) -> None:
    old = await world.blobs.put("lease", b"1")
    new = await world.other.put("lease", b"2", if_match=old)
    assert new != old
    with pytest.raises(Conflict):
        await world.blobs.put("lease", b"3", if_match=old)


async def test_listing_is_ordered_by_name_and_shows_leases_and_metadata(world: ContainerWorld) -> None:
    for name in ("p/2", "p/10", "p/1", "q/1"):
        await world.blobs.put(name, b"x", metadata={"n": name[2:]})
    await world.blobs.acquire_lease("p/1", ONE, 15)
    listed = await world.other.list("p/", metadata=True)
    assert [(info.name, info.leased, dict(info.metadata)) for info in listed] == [
        ("p/1", True, {"n": "1"}),
        ("p/10", False, {"n": "10"}),
        ("p/2", False, {"n": "2"}),
    ]
    head = await world.blobs.head("p/2")
    assert head is not None and head.etag == listed[2].etag
    await world.blobs.set_metadata("p/2", {"n": "3"})
    kept = (await world.other.list("p/2", metadata=True))[0]
    assert listed[2].md5 == kept.md5 == md5(b"x", usedforsecurity=False).digest()


async def test_one_level_of_names_has_each_folder_once(world: ContainerWorld) -> None:
    for name in ("p/Team/1", "p/Team/2", "p/Team~record", "p/team/deep/1", "q/Team/1", "p/other"):
        await world.blobs.put(name, b"x")
    assert set(await world.other.level("p/T")) - {"p/Team"} == {"p/Team/", "p/Team~record"}  # HNS: also the folder
    assert set(await world.other.level("p/t")) - {"p/team"} == {"p/team/"}
    assert await world.other.level("none") == []


async def test_a_lease_guards_writes_until_released(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"1")
    await world.blobs.acquire_lease("b", ONE, 15)
    await world.blobs.acquire_lease("b", ONE, 15)  # the same request again is no error
    with pytest.raises(Conflict):
        await world.other.acquire_lease("b", TWO, 15)
    with pytest.raises(Conflict):
        await world.other.put("b", b"2")
    with pytest.raises(Conflict):
        await world.other.put("b", b"2", lease_id=TWO)
    leased = await world.blobs.head("b")
    assert leased is not None
    await world.blobs.put("b", b"3", lease_id=ONE, if_match=leased.etag)
    await world.blobs.release_lease("b", ONE)
    await world.other.acquire_lease("b", TWO, 15)


async def test_an_expired_lease_can_be_taken_and_its_owner_writes_no_more(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"1")
    await world.blobs.acquire_lease("b", ONE, 15)
    await world.sleep(8)
    await world.blobs.renew_lease("b", ONE)
    await world.sleep(8)
    with pytest.raises(Conflict):
        await world.other.acquire_lease("b", TWO, 15)
    await world.sleep(8)
    info = await world.blobs.head("b")
    assert info is not None and not info.leased
    with pytest.raises(Conflict):
        await world.blobs.put("b", b"2", lease_id=ONE)
    await world.other.acquire_lease("b", TWO, 15)
    with pytest.raises(Conflict):
        await world.blobs.renew_lease("b", ONE)


async def test_operations_on_absent_blobs_say_so(world: ContainerWorld) -> None:
    with pytest.raises(NotFound):
        await world.blobs.acquire_lease("no", ONE, 15)
    with pytest.raises((NotFound, Conflict)):
        await world.blobs.put("no", b"1", if_match='"1"')


async def test_while_a_lease_is_breaking_its_owner_may_still_write_and_nobody_else(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"1")
    await world.blobs.acquire_lease("b", ONE, 30)
    await world.break_lease("b", 4)
    info = await world.blobs.head("b")
    assert info is not None and info.leased
    await world.blobs.put("b", b"2", lease_id=ONE)
    for refused in (
        world.blobs.renew_lease("b", ONE),
        world.other.acquire_lease("b", TWO, 15),
        world.other.put("b", b"3"),
    ):
        with pytest.raises(Conflict):
            await refused
    await world.sleep(5)
    with pytest.raises(Conflict):
        await world.blobs.put("b", b"4", lease_id=ONE)
    with pytest.raises(Conflict):
        await world.blobs.renew_lease("b", ONE)
    await world.other.acquire_lease("b", TWO, 15)


async def test_nothing_works_in_a_deleted_container_until_it_is_made_again(world: ContainerWorld) -> None:
    etag = await world.blobs.put("b", b"1")
    await world.delete_container()
    assert await world.blobs.head("b") is None
    assert await world.blobs.read("b", 10) is None
    for refused in (
        world.blobs.list(""),
        world.blobs.put("c", b"1"),
        world.blobs.put("c", b"1", if_absent=True),
        world.blobs.put("b", b"1", if_match=etag),
        world.blobs.renew_lease("b", ONE),
    ):
        with pytest.raises(NotFound):
            await refused


async def test_metadata_is_replaced_under_a_condition_and_the_content_stays(world: ContainerWorld) -> None:
    old = await world.blobs.put("b", b"content", metadata={"ownerid": "a", "epoch": "3"})
    new = await world.other.set_metadata("b", {"ownerid": ""}, if_match=old)
    assert new != old
    with pytest.raises(Conflict) as raised:
        await world.blobs.set_metadata("b", {"ownerid": "b"}, if_match=old)
    assert raised.value.code == "ConditionNotMet"
    blob = await world.blobs.read("b", 100)
    assert blob is not None
    assert (blob.data, dict(blob.info.metadata), blob.info.etag) == (b"content", {"ownerid": ""}, new)
    listed = (await world.blobs.list("b", metadata=True))[0]
    assert (dict(listed.metadata), listed.etag) == ({"ownerid": ""}, new)
    with pytest.raises(NotFound):
        await world.blobs.set_metadata("no", {"ownerid": "b"})
    with pytest.raises((NotFound, Conflict)):
        await world.blobs.set_metadata("no", {"ownerid": "b"}, if_match=old)


async def test_a_lease_that_never_ends_is_seen_as_such(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"1")
    await world.blobs.put("c", b"1")
    await world.blobs.acquire_lease("b", ONE, FOREVER)
    await world.blobs.acquire_lease("c", ONE, 15)
    await world.blobs.renew_lease("b", ONE)
    head = await world.other.head("b")
    assert head is not None and (head.leased, head.forever) == (True, True)
    assert [(info.leased, info.forever) for info in await world.other.list("")] == [(True, True), (True, False)]
    with pytest.raises(Conflict):
        await world.other.acquire_lease("b", TWO, 15)
    await world.break_lease("b", 0)
    await world.other.acquire_lease("b", TWO, 15)


def broken_off(*blocks: bytes) -> Iterator[bytes]:
    """Blocks whose writer dies before it makes them a blob."""
    yield from blocks
    raise ConnectionResetError


async def test_blocks_are_seen_as_a_whole_or_not_at_all(world: ContainerWorld) -> None:
    with pytest.raises(ConnectionResetError):
        await put_blocks(world.other, "slot", broken_off(b"a", b"b"), if_absent=True)
    head = await world.blobs.head("slot")
    assert (head is None or head.maybe_staged) and not await world.blobs.list("slot")
    etag = await put_blocks(world.blobs, "slot", [b"one", b"two"], metadata={"first": "1"}, if_absent=True)
    blob = await world.other.read("slot", 100)
    assert blob is not None
    assert (blob.data, blob.info.etag, dict(blob.info.metadata)) == (b"onetwo", etag, {"first": "1"})


async def test_blocks_of_a_dead_writer_are_in_the_way_of_a_single_put_only(world: ContainerWorld) -> None:
    with pytest.raises(ConnectionResetError):
        await put_blocks(world.other, "slot", broken_off(b"dead"), if_absent=True)
    with pytest.raises(Conflict) as raised:  # Azure itself takes the put: either must be coped with
        await world.blobs.put("slot", b"small", if_absent=True)
    assert raised.value.code == "BlobAlreadyExists"
    await put_blocks(world.blobs, "slot", [b"small"], if_absent=True)
    blob = await world.blobs.read("slot", 100)
    assert blob is not None and blob.data == b"small"


async def test_two_writers_of_blocks_never_mix(world: ContainerWorld) -> None:
    writers = [
        put_blocks(world.blobs, "slot", [b"1" * 9, b"1" * 9], metadata={"writer": "1"}, if_absent=True),
        put_blocks(world.other, "slot", [b"2" * 9, b"2" * 9], metadata={"writer": "2"}, if_absent=True),
    ]
    answers = await asyncio.gather(*writers, return_exceptions=True)
    assert [isinstance(answer, Conflict | Refused) for answer in answers].count(True) == 1
    blob = await world.blobs.read("slot", 100)
    assert blob is not None
    assert blob.data == blob.info.metadata["writer"].encode() * 18


async def test_blocks_do_not_replace_a_blob_where_they_must_not(world: ContainerWorld) -> None:
    await world.blobs.put("slot", b"mine", if_absent=True)
    with pytest.raises(Conflict):
        await put_blocks(world.other, "slot", [b"yours"], if_absent=True)
    blob = await world.blobs.read("slot", 10)
    assert blob is not None and blob.data == b"mine"
    await put_blocks(world.other, "slot", [b"yours"])
    blob = await world.blobs.read("slot", 10)
    assert blob is not None and blob.data == b"yours"


async def test_a_put_in_between_drops_staged_blocks(world: ContainerWorld) -> None:
    await world.blobs.put_block("slot", "1", b"a")
    await world.other.put("slot", b"whole")
    await world.blobs.put_block("slot", "2", b"b")
    with pytest.raises((Conflict, Refused)):
        await world.blobs.put_block_list("slot", ["1", "2"], if_absent=True)
    blob = await world.blobs.read("slot", 10)
    assert blob is not None and blob.data == b"whole"


async def test_only_the_version_meant_is_removed(world: ContainerWorld) -> None:
    old = await world.blobs.put("b", b"1")
    new = await world.blobs.put("b", b"2")
    with pytest.raises(Conflict):
        await world.other.remove("b", if_match=old)
    await world.other.remove("b", if_match=new)
    assert await world.blobs.head("b") is None
    with pytest.raises((NotFound, Conflict)):
        await world.other.remove("b", if_match=new)


async def test_a_listing_can_be_cut_short(world: ContainerWorld) -> None:
    for number in range(5):
        await world.blobs.put(f"p/{number}", b"x")
    assert [info.name for info in await world.blobs.list("p/", limit=2)] == ["p/0", "p/1"]
    assert len(await world.blobs.list("p/", limit=9)) == 5


async def test_a_listing_is_read_page_by_page(world: ContainerWorld) -> None:
    names = [f"p/{number}" for number in range(5)]
    for name in [*names, "q/1"]:
        await world.blobs.put(name, b"x", metadata={"n": name[2:]})
    found, token = await world.other.list_page("p/", limit=2)
    assert [info.name for info in found] == names[:2]
    while token:
        more, token = await world.other.list_page("p/", token, limit=2)
        found = [*found, *more]
    assert [(info.name, dict(info.metadata)) for info in found] == [(name, {"n": name[2:]}) for name in names]
    assert await world.other.list_page("r/") == ([], "")


async def test_the_folders_at_a_prefix_are_listed(world: ContainerWorld) -> None:
    async def folders(prefix: str) -> list[str]:
        return sorted(name for name in await world.other.level(prefix) if name.endswith("/"))

    for name in ("p-A/x/1", "p-A/y", "p-a b/1", "p", "q/1"):
        await world.blobs.put(name, b"x")
    assert await folders("p-") == ["p-A/", "p-a b/"]
    assert await folders("p-A/") == ["p-A/x/"]
    assert await folders("") == ["p-A/", "p-a b/", "q/"]


async def test_a_listing_says_of_a_blob_what_its_own_properties_say(world: ContainerWorld) -> None:
    names = ("p/a b&<c>", "p/\u00fc\u4e16", "p/%41", "p/empty", "p/leased", "p/forever")
    for name in names:
        await world.blobs.put(name, b"" if name == "p/empty" else b"xy", metadata={"of": "<a & b>", "gap": ""})
    await world.blobs.acquire_lease("p/leased", ONE, 60)
    await world.blobs.acquire_lease("p/forever", TWO, FOREVER)
    listed = await world.other.list("p/", metadata=True)
    assert {info.name for info in listed} == set(names)
    assert listed == [await world.blobs.head(info.name) for info in listed]
    bare = await world.other.list("p/")
    assert [(info.name, info.etag) for info in bare] == [(info.name, info.etag) for info in listed]
    assert not any(info.metadata for info in bare)


async def test_empty_metadata_values_stay_empty(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"x", metadata={"gap": ""})
    (listed,) = await world.blobs.list("b", metadata=True)
    head = await world.blobs.head("b")
    assert head is not None and dict(head.metadata) == dict(listed.metadata) == {"gap": ""}


async def test_metadata_has_a_limit(world: ContainerWorld) -> None:
    await world.blobs.put("b", b"x", metadata={"gap": "1" * 7000})
    for write in (
        world.blobs.put("b", b"x", metadata={"gap": "1" * 17_000}),
        put_blocks(world.blobs, "b", [b"x"], metadata={"gap": "1" * 17_000}),
        world.blobs.set_metadata("b", {"gap": "1" * 17_000}),
    ):
        with pytest.raises(Refused):
            await write
