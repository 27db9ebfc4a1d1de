"""The lease layout: written byte for byte, read leniently, never guessed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import LeaseDialect
from eventconsumer_processor.errors import LeaseInvalid
from eventconsumer_processor.lease import eventprocessorhost as layout
from eventconsumer_processor.lease.model import Checkpoint, Lease

text = st.text(max_size=30)
offsets = st.text(min_size=1, max_size=20).filter(lambda offset: offset != layout.START_OF_STREAM)
checkpoints = st.none() | st.builds(Checkpoint, offsets, st.integers(-(2**63), 2**63 - 1))
leases = st.builds(
    Lease,
    st.just("7"),
    owner=text,
    token=text,
    epoch=st.integers(-1, 2**63 - 1),
    checkpoint=checkpoints,
)


@given(leases, st.booleans())
def test_a_lease_is_read_as_written(lease: Lease, java: bool) -> None:
    body = layout.encode(lease, java=java)
    assert layout.decode(body, "7") == lease
    assert layout.dialect_of(body) is (LeaseDialect.JAVA if java else LeaseDialect.DOT_NET)


def test_the_written_bytes() -> None:
    lease = Lease("0", owner="host", token="guid", epoch=3, checkpoint=Checkpoint("4096", 12))
    assert layout.encode(lease, java=False) == (
        b'{"Offset":"4096","SequenceNumber":12,"PartitionId":"0","Owner":"host","Token":"guid","Epoch":3}'
    )


def test_older_key_order_and_the_java_spelling_are_read() -> None:
    old = b'{"PartitionId":"0","Owner":"h","Token":"t","Epoch":5,"Offset":"9","SequenceNumber":1}'
    java = b'{"offset":"9","sequenceNumber":1,"token":"t","epoch":5,"partitionId":"0","owner":"h"}'
    expected = Lease("0", owner="h", token="t", epoch=5, checkpoint=Checkpoint("9", 1))
    assert layout.decode(old, "0") == expected
    assert layout.decode(java, "0") == expected


def test_a_java_lease_is_written_as_java_reads_it() -> None:
    fresh = layout.decode(b'{"sequenceNumber":0,"epoch":-1,"partitionId":"0"}', "0")
    assert fresh == Lease("0", epoch=-1)
    owned = replace(fresh, owner="h", token="t", epoch=0)
    assert (
        layout.encode(owned, java=True) == b'{"sequenceNumber":-1,"token":"t","epoch":0,"partitionId":"0","owner":"h"}'
    )
    read = replace(owned, checkpoint=Checkpoint("9", 1))
    assert layout.encode(read, java=True) == (
        b'{"offset":"9","sequenceNumber":1,"token":"t","epoch":0,"partitionId":"0","owner":"h"}'
    )


@pytest.mark.parametrize("offset", ["null", '""'])
def test_a_lease_without_an_offset_has_no_checkpoint(offset: str) -> None:
    body = f'{{"Offset":{offset},"SequenceNumber":7,"PartitionId":"0","Owner":"","Token":"","Epoch":2}}'
    assert layout.decode(body.encode(), "0").checkpoint is None


def test_the_offset_of_the_start_is_a_checkpoint_before_the_first_event() -> None:
    body = b'{"Offset":"-1","SequenceNumber":0,"PartitionId":"0","Owner":"","Token":"","Epoch":2}'
    assert layout.decode(body, "0").checkpoint == Checkpoint("-1", -1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"Offset":"9","SequenceNumber":1}',
        b'{"Epoch":"1"}',
        b'{"Epoch":1.5}',
        b'{"Epoch":true}',
        b'{"Owner":1}',
        b'{"PartitionId":"8"}',
        b'{"Epoch":' + b"9" * 30 + b"}",
        b"[" * 16_000,
        b" " * 20_000,
        b"\xff\xfe",
        b'{"Epoch":1,"Owner":"\\ud800"}',  # half of a surrogate pair: it could not be written again
        b'{"Epoch":1,"Offset":"9\\udfff"}',
    ],
)
def test_damaged_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(LeaseInvalid):
        layout.decode(body, "7")


@given(st.recursive(st.none() | st.booleans() | st.integers() | text, lambda inner: st.dictionaries(text, inner)))
def test_any_json_is_a_lease_or_refused(value: object) -> None:
    try:
        layout.decode(json.dumps(value).encode(), "7")
    except LeaseInvalid as error:
        assert str(error).startswith("it")


def test_names_put_the_prefix_in_front_as_it_is() -> None:
    assert layout.blob_name("", "$Default", "0") == "$Default/0"
    assert layout.blob_name("team-", "Billing", "12") == "team-Billing/12"
