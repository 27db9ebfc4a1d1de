"""The table of conversions is complete, and its patterns are those of RFC 8259 and RFC 3339."""

import re

import pytest
from pydantic import ValidationError

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.json_columns import ColumnType, JsonKind, Rule, TimeForm
from eventconsumer_api.spec.spark import Body


def test_each_type_has_a_rule_and_each_rule_a_type() -> None:
    assert set(table.TABLE) == set(ColumnType)
    used = {rule for rules in (*table.TABLE.values(), *table.FORMS.values()) for rule in rules.values()}
    assert used == set(Rule)
    assert all(set(rules) <= set(JsonKind) and rules for rules in table.TABLE.values())
    assert set(table.FORMS) == set(TimeForm)
    assert set(table.EPOCH_DIGITS) == {form for form, rules in table.FORMS.items() if rules is table.EPOCH_TABLE}


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (table.DATE_PATTERN, ["2026-01-02"], ["0000-01-01", "20455", "2026-1-2", "2026-01-02T", "٢٠٢٦-01-02"]),
        (table.LOCAL_PATTERN, ["2026-01-02T03:04:05", "2026-01-02 03:04:05.1234560"], ["2026-01-02T03:04:05Z"]),
        (table.ZONED_PATTERN, ["2026-01-02T03:04:05.1-02:30"], ["2026-01-02T03:04:05"]),
        (
            table.INSTANT_PATTERN,
            ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05"],
            ["03:04", "2026-01-02", "2026-01-02T03:04Z", "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.Z"],
        ),
        (table.TRUNCATED_PATTERN, ["2026-01-02T03:04:05.1234567Z", "2026-01-02 03:04:05"], ["03:04", "2026-01-02"]),
        (table.ZONED_TRUNCATED_PATTERN, ["2026-01-02T03:04:05.123456789+01:00"], ["2026-01-02T03:04:05.1234567"]),
        (table.DECIMAL_PATTERN, ["0", "-1.50", "10"], ["01", "1.", ".5", "+1", "1e2", "1,000.5", " 1", "NaN"]),
    ],
)
def test_patterns(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert all(re.fullmatch(pattern, text, re.ASCII) for text in fitting)
    assert not [text for text in others if re.fullmatch(pattern, text, re.ASCII)]


def test_forms_of_times_are_known_and_left_out_where_there_are_none() -> None:
    body = Body.model_validate({"type": "Json", "schema": "at TIMESTAMP", "times": {"at": "EpochMillis"}})
    assert Body.model_validate_json(body.model_dump_json(by_alias=True)) == body
    assert "times" not in Body().model_dump()
    with pytest.raises(ValidationError, match="EpochSeconds"):
        Body.model_validate({"type": "Json", "schema": "at TIMESTAMP", "times": {"at": "Millis"}})
