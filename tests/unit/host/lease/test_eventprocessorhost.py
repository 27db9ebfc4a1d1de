"""The lease layout: written byte for byte, read leniently, never guessed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import LeaseDialect, LeaseLayout
from eventconsumer_api.wire.legacylease import START_OF_STREAM
from eventconsumer_audit.leases import legacy
from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease import eventprocessorhost as layout
from eventconsumer_host.lease.model import NO_NUMBER, Checkpoint, Lease
from tests.support.legacyleases import DIALECTS, KEYS, WITHOUT_NUMBER, document

HOST = LeaseLayout.EVENT_PROCESSOR_HOST

text = st.text(max_size=30)
offsets = st.text(min_size=1, max_size=20).filter(lambda offset: offset != START_OF_STREAM)
checkpoints = st.none() | st.builds(Checkpoint, offsets, st.integers(NO_NUMBER, 2**63 - 1))
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


@pytest.mark.parametrize("dialect", DIALECTS)
def test_leases_of_all_libraries_are_read_alike_by_hosts_and_the_audit(dialect: str) -> None:
    body = document(dialect, "0", "4096", 12)
    found, audited = layout.decode(body, "0"), legacy("0", "b", body, held=False, etag="")
    assert found.checkpoint is not None
    number = found.checkpoint.sequence_number
    assert found == Lease("0", epoch=3, checkpoint=Checkpoint("4096", number))
    assert (number == 12) == (dialect not in WITHOUT_NUMBER) == (not found.checkpoint.needs_offset(HOST))
    assert (audited.offset, audited.epoch, audited.checkpoint or -1) == ("4096", 3, number or -1)


def spelled(name: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A field in any of the dialects, or absent."""
    absent: dict[str, Any] = {}
    keys = st.sampled_from([keys[name] for keys in KEYS])
    return st.just(absent) | st.tuples(keys, values).map(lambda pair: {pair[0]: pair[1]})


NUMBERS = st.sampled_from([None, "", 0, "0", 12, "12", -1, 2**63 - 1, str(2**63 - 1)])


@given(
    offset=spelled(0, st.sampled_from([None, "", "-1", "4096", 4096])),
    number=spelled(1, NUMBERS),
    partition=spelled(2, st.sampled_from([None, "", "0", 0])),
    owner=spelled(3, st.sampled_from([None, "", "h"])),
    epoch=spelled(5, NUMBERS),
)
def test_every_field_in_any_spelling_absent_null_empty_or_a_number_as_text(**fields: dict[str, Any]) -> None:
    assume(fields["partition"] or fields["epoch"])
    body = json.dumps({key: value for field in fields.values() for key, value in field.items()}).encode()
    values = {name: next(iter(field.values()), None) for name, field in fields.items()}
    offset, number = str(values["offset"] or ""), values["number"]
    known = int(number) if offset != "-1" and number not in (None, "", -1) else -1
    found, audited = layout.decode(body, "0"), legacy("0", "b", body, held=False, etag="")
    assert (found.owner, found.epoch, audited.damage) == (values["owner"] or "", int(values["epoch"] or 0), "")
    assert found.checkpoint == (Checkpoint(offset, known) if offset else None)
    assert audited.offset == offset
    assert audited.checkpoint == (known if offset and known >= 0 else None)
    only_offset = offset not in {"", "-1"} and known <= 0
    assert (found.checkpoint is not None and found.checkpoint.needs_offset(HOST)) == only_offset


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
        b'{"Epoch":"one"}',
        b'{"Epoch":1,"Offset":"9","offset":"10"}',  # two libraries, or a person: no value is preferred
        b'{"Epoch":1,"sequence_number":1,"SequenceNumber":2}',
        b'{"Epoch":1.5}',
        b'{"Epoch":true}',
        b'{"Owner":1}',
        b'{"Epoch":1,"Offset":9.5}',
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
