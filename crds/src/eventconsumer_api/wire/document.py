"""The base of the documents that programs of other versions read: configuration, requests, messages, reports, records.

- A value at its default is not written. So a program of an older version meets a new field only where it is used.
- Unknown fields are ignored. A document that must not be half understood refuses them (`extra="forbid"`).
- A field that the first version does not have names its version: `Annotated[bool, Since("0.2.0")]`.
- What must always be written has no default.

The rules apply to the whole document, whichever models its parts are. tests/golden has documents of each version, and
docs/contributing/wire.md explains how to add a field.
"""

from typing import Any, Self

from pydantic import ConfigDict, ValidationError

from eventconsumer_api.shared.model import Model

_SHOWN = 5  # fields in a message


class WireDocument(Model):
    """A whole document; its parts may be any models."""

    model_config = ConfigDict(extra="ignore")

    def to_json(self, *, indent: int | None = None) -> str:
        """The document without the values that are defaults: equal for equal values."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True, indent=indent)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As `Model`; what becomes of unknown fields is the same in all parts.

        Raises:
            ValidationError: It is not valid, or has a field that is unknown and must not be ignored.
        """
        return super().model_validate_json(json_data, **({"extra": cls.model_config["extra"]} | options))


def misfit(error: ValidationError) -> str:
    """Why a program refuses the document that its operator wrote: fields, causes and the remedy, without values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [each for each in problems if each["type"] == "extra_forbidden"]
    causes = [
        f"{'.'.join(map(str, each['loc'])) or 'the document'}: "
        + ("this version does not know the field" if each in unknown else each["msg"])
        for each in (unknown or problems)[:_SHOWN]
    ]
    remedy = "run the operator and this image at the same version"
    if unknown:
        remedy = (
            "the image is older than the operator: run the operator's version of the image, or an image built from it, "
            "or remove the field from the resource"
        )
    return f"{'; '.join(causes)}: {remedy}"
