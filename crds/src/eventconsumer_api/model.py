"""The base of every model: camelCase on the wire, frozen, unknown fields refused.

Unknown fields are refused, so that no field is accepted and ignored: a field exists only if it works.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A frozen value with camelCase JSON names; `populate_by_name` lets Python code use snake_case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class Report(Model):
    """A value that a program of another version may have written: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


def rules(*checks: tuple[str, str]) -> ConfigDict:
    """Attach CEL rules to a model: pairs of (expression that must hold, message naming field and remedy)."""
    validations = [{"rule": rule, "message": message} for rule, message in checks]
    extra: dict[str, Any] = {"x-kubernetes-validations": validations}
    return ConfigDict(json_schema_extra=extra)
