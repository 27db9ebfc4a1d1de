"""The base of every model: camelCase on the wire, frozen, unknown fields refused.

Unknown fields are refused, so that no field is accepted and ignored: a field exists only if it works.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.alias_generators import to_camel

from eventconsumer_api.terminal import clean


class Model(BaseModel):
    """A frozen value with camelCase JSON names; `populate_by_name` lets Python code use snake_case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class Report(Model):
    """A value that a program of another version may have written: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class ShownReport(Report):
    """A report for people: control characters in its texts are replaced, whichever program or user wrote them."""

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
        return clean(value)
    if type(value) is dict:
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    return value


def rules(*checks: tuple[str, str]) -> ConfigDict:
    """Attach CEL rules to a model: pairs of (expression that must hold, message naming field and remedy)."""
    validations = [{"rule": rule, "message": message} for rule, message in checks]
    extra: dict[str, Any] = {"x-kubernetes-validations": validations}
    return ConfigDict(json_schema_extra=extra)
