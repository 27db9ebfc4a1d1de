"""The SDKs' layout as text: names, and metadata read leniently but never guessed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease import azuresdk as layout
from eventconsumer_host.lease.azuresdk import Names, Ownership
from eventconsumer_host.lease.model import Checkpoint

NAMES = Names("", "Shop.servicebus.windows.net", "Orders", "$Default")
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


def test_names_are_in_lower_case_without_a_spelling() -> None:
    assert NAMES.ownership("3") == "shop.servicebus.windows.net/orders/$default/ownership/3"
    assert NAMES.checkpoint("3") == "shop.servicebus.windows.net/orders/$default/checkpoint/3"
    other = replace(NAMES, spelling="Shop.servicebus.windows.net/orders/$Default")
    assert other.checkpoint("3") == "Shop.servicebus.windows.net/orders/$Default/checkpoint/3"
    assert other.home == NAMES.home == NAMES.folder


def test_a_prefix_is_put_in_front_as_it_is() -> None:
    assert Names(" Team-", "ns", "hub", "g").ownership("0") == "Team-ns/hub/g/ownership/0"


@given(st.builds(Ownership, words, st.integers(0, 2**63 - 1), words, st.integers(0, 1000)))
def test_an_ownership_is_read_as_written(found: Ownership) -> None:
    assert layout.ownership(found.encode()) == found


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({"ownerid": "p"}, "p"),
        ({"OwnerId": "p"}, "p"),
        ({"ownerid": ""}, ""),
        ({}, ""),
        ({"ownerid": "p", "epoch": "7"}, "p"),
        ({"ownerid": "p", "epoch": "many", "token": "t", "seconds": "15"}, "p"),
        ({"ownerid": "p", "epoch": "9" * 30, "token": "t", "seconds": "15"}, "p"),
    ],
)
def test_an_ownership_of_another_program(metadata: dict[str, str], owner: str) -> None:
    found = layout.ownership(metadata)
    assert found == Ownership(owner)
    assert not found.ours


@given(st.builds(Checkpoint, words.filter(lambda text: text.lower() != "no offset"), st.integers(-1, 2**63 - 1)))
def test_a_checkpoint_is_read_as_written(checkpoint: Checkpoint) -> None:
    assert layout.decode_checkpoint(layout.encode_checkpoint(checkpoint)) == checkpoint


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"offset": "100", "sequencenumber": "7"}, Checkpoint("100", 7)),
        ({"Offset": "100", "SequenceNumber": "7"}, Checkpoint("100", 7)),
        ({"offset": "100", "sequencenumber": "7", "clientidentifier": "c"}, Checkpoint("100", 7)),
        ({"offset": "no offset", "sequencenumber": "7"}, Checkpoint("", 7)),
        ({"sequencenumber": "7"}, Checkpoint("", 7)),
        ({"offset": "100", "sequencenumber": ""}, Checkpoint("100", -1)),  # only an offset: hosts find the number
        ({"offset": "100"}, Checkpoint("100", -1)),
        ({"offset": "no offset", "sequencenumber": ""}, None),
        ({"offset": "", "sequencenumber": ""}, None),
        ({}, None),
    ],
)
def test_variants_of_checkpoints(metadata: dict[str, str], expected: Checkpoint | None) -> None:
    assert layout.decode_checkpoint(metadata) == expected


@pytest.mark.parametrize(
    "metadata",
    [
        {"offset": "100", "sequencenumber": "seven"},
        {"offset": "100", "sequencenumber": "7.5"},
        {"offset": "100", "sequencenumber": "--7"},
        {"offset": "100", "sequencenumber": "9" * 19},
        {"offset": "100", "sequencenumber": "9" * 5000},
        {"offset": "1" * 5000, "sequencenumber": "7"},
    ],
)
def test_positions_that_cannot_be_understood_are_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(LeaseInvalid):
        layout.decode_checkpoint(metadata)


@given(st.dictionaries(st.sampled_from(["offset", "sequencenumber", "ownerid", "epoch", "seconds"]), st.text()))
def test_any_metadata_is_understood_or_refused(metadata: dict[str, str]) -> None:
    layout.ownership(metadata)
    try:
        layout.decode_checkpoint(metadata)
    except LeaseInvalid as error:
        assert str(error).startswith("it")
