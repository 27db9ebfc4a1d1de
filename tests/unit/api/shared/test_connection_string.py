import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.shared.connection_string import (
    ConnectionStringError,
    normal_connection_string,
    parse_connection_string,
)

NAMES = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=20)
VALUES = st.text(st.characters(codec="ascii", exclude_characters=";", categories=["L", "N", "P", "S"]), max_size=40)


@given(st.dictionaries(NAMES.map(str.lower), VALUES, min_size=1, max_size=6))
def test_parts_come_back(parts: dict[str, str]) -> None:
    text = ";".join(f"{name.upper()}={value}" for name, value in parts.items())
    assert parse_connection_string(text) == parts


def test_values_keep_their_equals_signs_and_spaces_around_parts_do_not_matter() -> None:
    text = " Endpoint=sb://a.b/ ; SharedAccessKey=abc== ;\n"
    assert parse_connection_string(text) == {"endpoint": "sb://a.b/", "sharedaccesskey": "abc=="}


def test_line_breaks_behind_parts_do_not_matter_and_other_clients_get_one_line() -> None:
    text = "Endpoint=sb://a.b/;\r\n SharedAccessKeyName=Read;\nSharedAccessKey=abc==\n"
    assert normal_connection_string(text) == "Endpoint=sb://a.b/;SharedAccessKeyName=Read;SharedAccessKey=abc=="


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"Endpoint=sb://a.b/;SharedAccessKey=secretvalue"', "no quotes"),
        ("‘AccountName=a;AccountKey=secretvalue’", "no quotes"),
        ("HostName=a.azure-devices.net;SharedAccessKeyName=x;SharedAccessKey=secretvalue", "Built-in endpoints"),
        ("AccountName=a;AccountKey=secret\nvalue", "part 2 has a line break"),
    ],
)
def test_what_people_paste_is_named(text: str, why: str) -> None:
    with pytest.raises(ConnectionStringError, match=why) as refused:
        normal_connection_string(text)
    assert "secretvalue" not in str(refused.value)


@pytest.mark.parametrize("text", ["", " ; ; ", "secretvalue", "=secretvalue", "A=secretvalue;a=secretvalue"])
def test_bad_text_is_refused_and_never_repeated(text: str) -> None:
    with pytest.raises(ConnectionStringError) as refused:
        parse_connection_string(text)
    assert "secretvalue" not in str(refused.value)
