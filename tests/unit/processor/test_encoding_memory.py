"""Encoding needs memory for the file and little more, however large the events are; measured in a process."""

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1024**2
BUFFER_MIB = 128
MEASURE = """
import os, resource, sys
from eventconsumer_processor.sink import avro, parquet
from tests.fakes.hub import batch_of

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

batch = batch_of((number, os.urandom(1024**2)) for number in range(int(sys.argv[2])))  # cannot be compressed
encode = {"avro": avro.encode, "parquet": parquet.encode}[sys.argv[1]]
encode([batch.head(1)], "0", {})
before = peak()
content = encode([batch], "0", {})
print(peak() - before, len(content) // 1024**2, max(map(len, content.blocks)) // 1024**2)
"""


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_buffer_of_large_events_is_encoded_in_little_more_than_its_file(form: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, form, str(BUFFER_MIB)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    extra, size, block = map(int, run.stdout.split())
    assert BUFFER_MIB <= size <= BUFFER_MIB + 1
    assert extra < 1.75 * BUFFER_MIB  # the file, and a row group twice: as columns, and on its way out
    assert block <= 10
