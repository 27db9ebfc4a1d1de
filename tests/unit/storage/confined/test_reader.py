"""The child that reads blobs of others: what it gets, what it may use, and how it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventconsumer_api.kube.quantities import amount
from eventconsumer_operator.resource.pods import DEFAULT_LIMITS, PROGRAM_MIB
from eventconsumer_storage.confined import child, reader
from eventconsumer_storage.confined.reader import (
    BASE_BYTES,
    BESIDE_BYTES,
    LEAST_BYTES,
    MIB,
    MOST_BYTES,
    Blobs,
    Reader,
    Unreadable,
    Vanished,
    Whole,
    allowance,
    blob,
    lent,
    whole,
)
from tests.support.fakes.blobs import FakeBlobStore

HERE = "tests.unit.storage.confined.functions"
BUFFER = 256 * MIB  # the default of spec.processing.bufferBytes


@pytest.fixture(autouse=True)
def functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child program that also finds the functions of this folder."""
    program = tmp_path / "program.py"
    root = Path(__file__).parents[4]
    program.write_text(
        f"import runpy, sys\nsys.path.append({str(root)!r})\nrunpy.run_path({child.__file__!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(reader, "_PROGRAM", str(program))


async def test_a_child_reads_ranges_and_returns_output_and_a_result() -> None:
    store, results = FakeBlobStore(lambda: 0.0), list[object]()
    data = os.urandom(5 * MIB + 7)
    await store.put("blob", data)
    (info,) = await store.list("blob")
    sources: list[Blobs] = [blob(store, info), Whole(b"end"), Whole(b"")]
    assert await whole(Reader().run(f"{HERE}:copy", sources, most=6 * MIB, done=results.append)) == data + b"end"
    assert results == [{"size": len(data) + 3}]
    assert sum(call == ("read", "blob") for call in store.calls) == 6  # each MiB once


async def test_a_child_has_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTCONSUMER_CONFIG_JSON", "secret")
    with Path(__file__).open(encoding="utf-8") as held:
        os.set_inheritable(held.fileno(), True)
        found: list[dict[str, object]] = []
        await whole(Reader().run(f"{HERE}:surroundings", [], most=9999, done=found.append))
    environment = found[0]["environment"]
    assert isinstance(environment, dict) and environment.keys() <= {*reader._ENVIRONMENT, "LC_CTYPE"}
    held_by_child = found[0]["descriptors"]
    assert isinstance(held_by_child, list) and held_by_child
    assert {each.partition(":")[0] for each in held_by_child} <= {"pipe", "/dev/null"}, held_by_child
    assert found[0]["nice"] == min(19, os.nice(0) + child.NICE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("grow", {"size": 200 * MIB}, "it needs more than 64 MiB of memory to read"),
        ("turn", {}, "it needs more than 1 s of CPU time to read"),
        ("end", {}, "it needs more than 64 MiB of memory to read"),  # how libraries end for lack of memory
        ("fail", {}, "KeyError: 'xxx"),
        ("copy", {}, "it has more content than the 1000000 bytes that are read of such a blob"),
        ("beyond", {}, "its parser reads more than the blob has"),
    ],
)
async def test_a_child_that_needs_more_than_it_may_is_a_fault_of_the_blob(
    function: str, arguments: dict[str, int], said: str
) -> None:
    confined = Reader(64 * MIB, seconds=1, keep=True)
    with pytest.raises(Unreadable) as raised:
        await whole(confined.run(f"{HERE}:{function}", [Whole(bytes(2 * MIB))], most=1_000_000, arguments=arguments))
    assert str(raised.value).startswith(said) and len(str(raised.value)) < 600
    again = await whole(confined.run(f"{HERE}:copy", [Whole(b"next")], most=1_000_000))
    assert again == b"next", "the next blob has another child"
    await confined.close()


async def test_memory_that_fits_is_given() -> None:
    assert await whole(Reader(64 * MIB).run(f"{HERE}:grow", [], most=9, arguments={"size": 40 * MIB})) == b""


async def test_a_child_that_is_kept_does_the_next_job() -> None:
    confined = Reader(64 * MIB, keep=True)
    for number in range(3):
        assert await whole(confined.run(f"{HERE}:copy", [Whole(b"%d" % number)], most=9)) == b"%d" % number
        assert sum(map(len, confined._idle.values())) == 1
    await confined.close()


async def test_a_blob_that_is_replaced_during_the_read_is_named() -> None:
    store = FakeBlobStore(lambda: 0.0)
    await store.put("blob", b"old")
    (info,) = await store.list("blob")
    await store.put("blob", b"new")
    with pytest.raises(Vanished, match="blob blob was deleted or replaced while it was read"):
        await whole(Reader().run(f"{HERE}:copy", [blob(store, info)], most=9))


def test_the_child_fits_beside_a_host_with_full_buffers() -> None:
    """At the default limit, and at the one that docs/how-to/tuning.md recommends: bufferBytes and 300 MiB."""
    for limit in (int(amount(DEFAULT_LIMITS["memory"])), BUFFER + 300 * MIB):
        allowed = allowance(limit, BUFFER)
        assert allowed == MOST_BYTES
        assert BESIDE_BYTES + BUFFER - lent(BUFFER) + BASE_BYTES + allowed <= limit
    assert allowance(None, BUFFER) == MOST_BYTES
    assert allowance((PROGRAM_MIB + 16) * MIB, 16 * MIB) == LEAST_BYTES


TARGETS = (
    "host.table.actions",
    "host.table.checkpoint_file",
    "audit.tablerows",
    "audit.parquetrows",
    "audit.avrorows",
    "tools.commands.parquetrows",
    "tools.commands.avrorows",
)


@pytest.mark.parametrize("module", TARGETS)
def test_a_child_starts_without_what_it_does_not_need(module: str) -> None:
    code = f"import sys, eventconsumer_{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "azure", "aiohttp", "structlog"} & {*loaded}
