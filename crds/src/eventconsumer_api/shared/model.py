"""The base of every model: camelCase on the wire, frozen, unknown fields refused.

Unknown fields are refused, so that no field is accepted and ignored: a field exists only if it works.
"""

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from eventconsumer_api.shared.terminal import clean_line

TOLD = "x-told"


def told(message: str) -> dict[str, JsonValue]:
    """What to write, for a field with a pattern: the API server shows this sentence instead of a regular expression.

    Args:
        message: It completes "spec.field: Invalid value: …".
    """
    return {TOLD: message}


VALUES = 50_000  # in any JSON: a report of 2,000 partitions has 30,000
BYTES_PER_VALUE = 24  # beyond these: a file in a manifest has 250 bytes and 8 values


class Model(BaseModel):
    """A frozen value with camelCase JSON names; `populate_by_name` lets Python code use snake_case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As in pydantic, but JSON with far more values than any record of ours is refused before it is parsed.

        pydantic takes up to 370 bytes for each value (measured: 1 MiB of `[],` takes 380 MiB), so others could exhaust
        a process by a small blob. Each value but the first of its list or object follows a comma, so counting needs no
        parser; commas in texts count, too.

        Raises:
            ValidationError: It has too many values, or is invalid.
        """
        comma, bracket, brace = (",", "[", "{") if isinstance(json_data, str) else (b",", b"[", b"{")
        values = json_data.count(comma) + json_data.count(bracket) + json_data.count(brace)  # type: ignore[arg-type]
        if values > VALUES + len(json_data) // BYTES_PER_VALUE:
            error = PydanticCustomError("too_many_values", "it has more values than any program of ours writes")
            raise ValidationError.from_exception_data(cls.__name__, [{"type": error, "input": None}], "json")
        return super().model_validate_json(json_data, **options)


class Report(Model):
    """A value that a program of another version may have written: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class ShownReport(Report):
    """A report for people: its texts are single lines without control characters, whichever program or user wrote them.

    A newline in a message would show a line that nobody wrote, in `kubectl describe` as in tables.
    """

    @field_validator("*", mode="after")
    @classmethod
    def _clean(cls, value: Any) -> Any:
        return _cleaned(value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As in pydantic, which does not validate `update`; its texts are cleaned here."""
        return super().model_copy(update={name: _cleaned(each) for name, each in (update or {}).items()}, deep=deep)


def _cleaned(value: Any) -> Any:
    """A value with clean texts. Models in it are clean already, and enumerations have only our words."""
    if type(value) is str:
        return clean_line(value)
    if type(value) is dict:
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    return value


_M = TypeVar("_M", bound=BaseModel)


def in_lines(document: _M) -> _M:
    """A copy of a document for people: each text is one line."""
    found = ((name, getattr(document, name)) for name in type(document).model_fields)
    return document.model_copy(update={name: _in_lines(value) for name, value in found})


def _in_lines(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return in_lines(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_in_lines, value))
    if isinstance(value, dict):
        return {_cleaned(key): _in_lines(each) for key, each in value.items()}
    return _cleaned(value)


def rules(*checks: tuple[str, str] | tuple[str, str, str]) -> ConfigDict:
    """Attach CEL rules to a model.

    Args:
        checks: For each rule the expression that must hold, the message naming field and remedy, and where it has a
            part of the value an expression for the message.
    """
    validations = [dict(zip(("rule", "message", "messageExpression"), check, strict=False)) for check in checks]
    extra: dict[str, Any] = {"x-kubernetes-validations": validations}
    return ConfigDict(json_schema_extra=extra)


def total(field: str, path: str, limit: int, *, pairs: bool = False) -> tuple[str, str]:
    """A rule on the characters of a list of texts, or with `pairs` of a map of texts: the operator holds all of them.

    Args:
        field: Name of the field in the model.
        path: Path of the field in the spec, for the message.
        limit: Maximum number of characters, with the keys of a map.
        pairs: Whether the field is a map.
    """
    size = f"size(each) + size(self.{field}[each])" if pairs else "size(each)"
    return (
        f"!has(self.{field}) || self.{field}.map(each, {size}).sum() <= {limit}",
        f"{path}: at most {limit} characters in all; put longer content into the image",
    )
