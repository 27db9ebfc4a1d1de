"""The errors that a parser may raise."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from eventconsumer_api.wire.document import WireDocument

_T = TypeVar("_T")


def allow(errors: type[Exception], call: Callable[..., _T], *arguments: Any) -> _T | None:
    """The result; None where it raises the errors that it documents, with a text."""
    try:
        return call(*arguments)
    except errors as error:
        assert str(error)
        return None


def same(found: BaseModel) -> None:
    """Check that a value is read again as it was written."""
    text = found.to_json() if isinstance(found, WireDocument) else found.model_dump_json(by_alias=True)
    again = type(found).model_validate_json(text)
    assert again == found or "NaN" in repr(found) or "nan" in repr(found)
