"""Pure rules: positions of readers, displacement by epochs, partitions of keys, tokens."""

import base64
import hmac
import json
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest

from eventhubs_emulator.errors import LinkFailed, UsageError
from eventhubs_emulator.hub import Partition, Retention
from eventhubs_emulator.keys import lookup3, partition_of_key
from eventhubs_emulator.messages import encode_event
from eventhubs_emulator.positions import NO_EVENT, parse_selector, start_of
from eventhubs_emulator.readers import displaced_by
from eventhubs_emulator.tokens import (
    LISTEN,
    MANAGE,
    RIGHTS,
    SEND,
    Grant,
    Policy,
    TokenRefused,
    check_jwt,
    check_sas,
    path_of,
)


@pytest.fixture
def partition() -> Partition:
    """Numbers 5 to 9 are kept; enqueued at 100 * number; the offset of each is 10 * something."""
    made = Partition("0", Retention())
    for number in range(10):
        made.append([encode_event(b"x")], 100 * number)
    made.drop_before(5)
    return made


def start(partition: Partition, condition: str) -> int:
    return start_of(parse_selector(f"amqp.annotation.x-opt-{condition}"), partition)


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ("offset > '-1'", 5),
        ("offset >= '-1'", 5),
        ("offset > '@latest'", 10),
        ("offset >= '@latest'", 10),
        ("sequence-number > '6'", 7),
        ("sequence-number >= '6'", 6),
        ("sequence-number > '9'", 10),
        ("sequence-number >= '9'", 9),
        ("sequence-number > '-1'", 0),
        ("enqueued-time > '600'", 7),
        ("enqueued-time >= '600'", 6),
        ("enqueued-time > '650'", 7),
        ("enqueued-time > '0'", 5),
        ("enqueued-time > '99999'", 10),
        ("enqueued-time-utc > 600", 7),
    ],
)
def test_a_selector_sets_the_first_event(partition: Partition, condition: str, first: int) -> None:
    assert start(partition, condition) == first


def test_offsets_are_found_exactly_and_between(partition: Partition) -> None:
    offset = partition.read(7, 1)[0].offset
    assert start(partition, f"offset > '{offset}'") == 8
    assert start(partition, f"offset >= '{offset}'") == 7
    assert start(partition, f"offset > '{offset - 1}'") == 7
    assert start(partition, f"offset > '{partition.last_offset}'") == 10
    assert start_of(parse_selector(None), partition) == 5


@pytest.mark.parametrize(
    ("selector", "says", "condition"),
    [
        ("sequence-number > '10'", r"is invalid\. The last sequence number in the system is", "argument-error"),
        ("sequence-number >= '10'", r"is invalid\. The last sequence number in the system is", "argument-error"),
        ("offset > '9999999'", r"is invalid\. The last offset in the system is", "argument-error"),
        ("offset > 'abc'", "not a number", ""),
        ("offset < '1'", "is not supported", ""),
        ("offset > '1' or 1=1", "is not supported", ""),
    ],
)
def test_a_selector_that_cannot_be_met_is_refused_as_azure_does(
    partition: Partition, selector: str, says: str, condition: str
) -> None:
    with pytest.raises(LinkFailed, match=says) as caught:
        start(partition, selector)
    assert caught.value.condition.endswith(condition)


@pytest.mark.parametrize(
    ("condition", "first"),
    [("sequence-number >= '-1'", 0), ("offset > '-1'", 0), ("sequence-number > '-1'", NO_EVENT)],
)
def test_a_new_partition_takes_only_some_positions_before_its_first_event(condition: str, first: int) -> None:
    assert start(Partition("0", Retention()), condition) == first


@pytest.mark.parametrize("text", ["", "x-opt-offset > '1'", "1=1; drop"])
def test_another_filter_is_refused(text: str) -> None:
    with pytest.raises(LinkFailed, match="is not supported"):
        parse_selector(text)


@pytest.mark.parametrize(
    ("newcomer", "present", "displaced"),
    [(None, [], 0), (None, [None] * 4, 0), (0, [], 0), (0, [0], 1), (2, [1], 1), (0, [None, None], 2)],
)
def test_a_new_reader_displaces_readers_of_lower_or_equal_epochs(
    newcomer: int | None, present: list[int | None], displaced: int
) -> None:
    reasons = displaced_by(newcomer, present)
    assert len(reasons) == displaced
    assert {reason.condition for reason in reasons} <= {"amqp:link:stolen"}


@pytest.mark.parametrize(
    ("newcomer", "present", "condition", "says"),
    [
        (1, [2], "amqp:link:stolen", "higher epoch '2' already exists"),
        (None, [0], "amqp:link:stolen", "non-epoch receiver is not allowed"),
        (None, [None] * 5, "amqp:resource-limit-exceeded", "maximum number of allowed receivers"),
    ],
)
def test_which_readers_are_refused(newcomer: int | None, present: list[int | None], condition: str, says: str) -> None:
    with pytest.raises(LinkFailed, match=says) as caught:
        displaced_by(newcomer, present)
    assert caught.value.condition == condition


def test_keys_spread_over_the_partitions() -> None:
    where = [partition_of_key(f"key-{number}", 8) for number in range(4000)]
    assert all(400 < where.count(partition) < 600 for partition in range(8))


def test_the_hash_is_the_published_one() -> None:
    """The values are those that the author of lookup3 gives with it."""
    assert lookup3(b"") == (0xDEADBEEF, 0xDEADBEEF)
    assert lookup3(b"Four score and seven years ago") == (0x17770551, 0xCE7226E6)


def test_a_negative_hash_is_reduced_as_c_does() -> None:
    negative = [key for key in map(str, range(20)) if (lookup3(key.encode())[0] ^ lookup3(key.encode())[1]) & 0x8000]
    assert negative
    for key in negative:
        c, b = lookup3(key.encode())
        assert partition_of_key(key, 7) == (0x10000 - ((c ^ b) & 0xFFFF)) % 7


POLICIES = {"root": Policy.of("root", "secret", ["Manage"]), "reader": Policy.of("reader", "a+b/c=", ["listen"])}


def sas(uri: str, name: str = "root", key: str = "secret", expiry: Any = 2000, **changes: str) -> str:
    signed = f"{quote_plus(uri)}\n{expiry}".encode()
    signature = base64.b64encode(hmac.digest(key.encode(), signed, "sha256")).decode()
    return "SharedAccessSignature " + urlencode({"sr": uri, "sig": signature, "se": expiry, "skn": name, **changes})


def test_a_good_token_grants_the_rights_of_its_policy() -> None:
    audience = "sb://localhost:5672/orders"
    assert check_sas(sas(audience), audience, POLICIES, 1000) == Grant("orders", RIGHTS, 2000)
    token = sas(audience, "reader", "a+b/c=")
    assert check_sas(token, audience + "/ConsumerGroups/x", POLICIES, 0).rights == {LISTEN}
    assert check_sas(sas("sb://localhost"), audience, POLICIES, 0).path == "orders"  # a namespace's covers every hub


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (sas("sb://h/orders", key="wrong"), "InvalidSignature"),
        (sas("sb://h/orders", name="nobody"), "InvalidSignature"),
        (sas("sb://h/orders", expiry=999), "ExpiredToken"),
        (sas("sb://h/orders", se="9999"), "InvalidSignature"),
        (sas("sb://h/orders", se="soon"), "MalformedToken"),
        (sas("sb://h/other"), "InvalidAudience"),
        (sas("sb://h/ord"), "InvalidAudience"),
        ("", "MalformedToken"),
        ("SharedAccessSignature sr=a&sig=b", "MalformedToken"),
        ("Bearer x", "MalformedToken"),
    ],
)
def test_a_bad_token_is_refused_with_azures_words(token: str, says: str) -> None:
    with pytest.raises(TokenRefused, match=says):
        check_sas(token, "sb://h/orders", POLICIES, 1000)


def jwt(claims: Any) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{part}.sig"


def test_a_bearer_token_is_valid_until_it_expires() -> None:
    assert check_jwt(jwt({"exp": 1500}), "orders", 9999, 1000).expires_at == 1500
    assert check_jwt("opaque", "orders", 1200, 1000).expires_at == 1200
    assert check_jwt("a.%%%.b", "orders", None, 1000).expires_at == float("inf")
    assert check_jwt(jwt([]), "orders", None, 1000).rights == RIGHTS
    for token, until in ((jwt({"exp": 900}), None), ("opaque", 900), ("", None)):
        with pytest.raises(TokenRefused):
            check_jwt(token, "orders", until, 1000)


def test_a_grant_covers_paths_below_it_and_not_names_with_the_same_beginning() -> None:
    grant = Grant("orders", RIGHTS, 0)
    assert grant.covers("orders")
    assert grant.covers("orders/partitions/0")
    assert not grant.covers("orders2")
    assert path_of("amqps://host:5671/Orders/") == "orders"
    assert path_of("/Orders") == "orders"


def test_policies_are_read_and_keep_their_key_to_themselves() -> None:
    assert Policy.of("a", "k", ["Listen", "SEND"]).rights == {LISTEN, SEND}
    assert Policy.of("a", "k", [MANAGE]).rights == RIGHTS
    assert "secret" not in repr(POLICIES)
    for name, key, rights in (("a", "k", ["read"]), ("a", "", ["Listen"]), ("", "k", ["Listen"]), ("a", "k", [])):
        with pytest.raises(UsageError, match="policy"):
            Policy.of(name, key, rights)
