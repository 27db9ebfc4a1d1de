"""How the output is cut into files, which small files are compacted, and the partitions in file names. Pure."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.spark import Body
from eventconsumer_api.wire.batch import BatchFile
from eventconsumer_spark.errors import ManifestError
from eventconsumer_spark.input.capture import check_names, partition_of
from eventconsumer_spark.input.reading import READER_BYTES, rows_at_a_time
from eventconsumer_spark.output.bodies import body_schema
from eventconsumer_spark.output.layout import (
    ENOUGH_FILES,
    ENOUGH_FULL,
    LEAST_SHARE,
    SMALL,
    SmallFiles,
    output_files,
    worth_compacting,
    worth_looking,
)

MIB = 1024**2
SIZES = st.integers(0, 1 << 45)
TARGETS = st.integers(MIB, 1024 * MIB)


@given(SIZES, TARGETS, st.integers(1, 500))
def test_files_are_never_above_the_target_nor_below_a_quarter_of_it(size: int, target: int, cores: int) -> None:
    files = output_files(size, target, cores)
    assert files >= 1
    assert size <= files * target
    if files > 1:
        assert size > (files - 1) * target / LEAST_SHARE
    # More than the size asks for only to keep cores busy.
    assert files <= max(cores, -(-size // target), 1)


@pytest.mark.parametrize(
    ("size", "cores", "files"),
    [(0, 8, 1), (MIB, 8, 1), (64 * MIB, 8, 2), (64 * MIB, 1, 1), (256 * MIB, 4, 4), (1280 * MIB, 4, 10)],
)
def test_files_of_a_batch(size: int, cores: int, files: int) -> None:
    assert output_files(size, 128 * MIB, cores) == files


def test_no_table_grows_for_long_without_a_look_at_its_files() -> None:
    looks = [number for number in range(1, 101) if worth_looking(number)]
    assert looks[0] <= ENOUGH_FULL
    assert all(later - earlier <= ENOUGH_FULL for earlier, later in itertools.pairwise([*looks, 101]))
    assert 10 <= len(looks) <= 50


FOUND = st.builds(SmallFiles, st.text(max_size=5), st.integers(1, 100), st.integers(1, 1 << 32))


@given(st.lists(FOUND, max_size=20, unique_by=lambda found: found.partition), TARGETS)
def test_a_partition_is_compacted_once_and_only_where_it_pays(small: list[SmallFiles], target: int) -> None:
    due = worth_compacting(small, target)
    assert len(due) == len(set(due))
    for found in small:
        many, full = found.files >= ENOUGH_FILES, found.files >= ENOUGH_FULL and found.bytes >= target
        assert (found.partition in due) == (many or full)
    counts = {found.partition: found.files for found in small}
    assert [counts[partition] for partition in due] == sorted((counts[partition] for partition in due), reverse=True)


def optimized(sizes: list[int], target: int) -> tuple[list[int], int]:
    """A partition's files after OPTIMIZE, which packs small files in order of size, and the bytes that it rewrites."""
    small, bins = sorted(size for size in sizes if size < int(target * SMALL)), [[0]]
    for size in small:
        if sum(bins[-1]) + size > target:
            bins.append([])
        bins[-1].append(size)
    written = [sum(packed) for packed in bins if len(packed) > 1]
    return [size for size in sizes if size not in small] + list(map(sum, bins)), sum(written)


@given(st.lists(st.integers(1, 1 << 27), min_size=2, max_size=100))
def test_a_compaction_leaves_at_most_one_small_file(sizes: list[int]) -> None:
    after, _ = optimized(sizes, 128 * MIB)
    assert sum(after) == sum(sizes)
    assert sum(size < int(128 * MIB * SMALL) for size in after) <= 1


@pytest.mark.parametrize("each", [MIB // 2, 2 * MIB, 9 * MIB, 40 * MIB, 63 * MIB])
def test_compactions_do_not_rewrite_a_growing_table_again_and_again(each: int) -> None:
    sizes: list[int] = []
    rewritten, target = 0, 128 * MIB
    for number in range(1, 1001):
        sizes.append(each)
        small = [size for size in sizes if size < int(target * SMALL)]
        if worth_looking(number) and worth_compacting([SmallFiles("", len(small), sum(small))], target):
            sizes, written = optimized(sizes, target)
            rewritten += written
    assert sum(sizes) == 1000 * each
    assert len(sizes) <= 2 * 1000 * each // target + 2 * ENOUGH_FILES
    assert rewritten <= 3 * 1000 * each


def file(path: str, partition: str = "7", size: int = 1000, count: int = 10) -> BatchFile:
    return BatchFile(path=path, etag="", size=size, partition=partition, first=0, last=9, count=count)


@given(st.integers(1, 1 << 40), st.integers(1, 10**7))
def test_readers_hold_little_whatever_the_size_of_events(size: int, count: int) -> None:
    rows = rows_at_a_time([file("a"), file("b", size=size, count=count)])
    assert 16 <= rows <= 4096
    assert rows == 16 or rows * size / count <= READER_BYTES


def test_the_partition_of_an_avro_file_is_in_its_name_in_both_layouts() -> None:
    slot = "shop/orders/segment=1/partition=12/from=00000000000000000000.avro"
    captured = "shop/orders/ns/hub/12/2026/01/02/03/04/05.avro"
    assert partition_of(slot) == partition_of(captured) == "12"
    assert partition_of("12/2026/01/02/03/04/05.avro") == "12"
    assert partition_of("shop/orders/12.avro") is None
    check_names([file(slot, "12"), file(captured, "12")])
    with pytest.raises(ManifestError, match="is of partition 7, its name says 12"):
        check_names([file(slot)])
    with pytest.raises(ManifestError, match="its name says none"):
        check_names([file("shop/orders/12.avro")])


def test_no_schema_is_none() -> None:
    assert body_schema(Body()) is None
