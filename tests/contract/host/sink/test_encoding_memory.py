"""Encoding needs memory for a few blocks, however large the file or its events are; measured in a process."""

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1024**2
BUFFER_MIB = 128
LIMIT_MIB = 72  # a row group, the blocks it leaves, and one that is joined
MEASURE = """
import os, resource, sys
from eventconsumer_host.sink import avro, parquet
from tests.support.fakes.hub import batch_of

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

batch = batch_of((number, os.urandom(1024**2)) for number in range(int(sys.argv[2])))  # cannot be compressed
encode = {"avro": avro.encode, "parquet": parquet.encode}[sys.argv[1]]
list(encode([batch.head(1)], "0", {}))
before = peak()
sizes = [len(block) for block in encode([batch], "0", {})]
print(peak() - before, sum(sizes) // 1024**2, max(sizes) // 1024**2)
"""


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_buffer_of_large_events_is_encoded_in_a_few_blocks(form: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, form, str(BUFFER_MIB)],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    extra, size, block = map(int, run.stdout.split())
    assert BUFFER_MIB <= size <= BUFFER_MIB + 1
    assert extra < LIMIT_MIB
    assert block <= 10
