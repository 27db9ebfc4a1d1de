"""Parts of the spec that become parts of a manifest as they are. Pure."""

from typing import Any

from pydantic import BaseModel


def as_written(model: BaseModel) -> dict[str, Any]:
    """A part of the spec as the user wrote it, without nulls and empty lists."""
    written = model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    result: dict[str, Any] = _without_empty_lists(written)
    return result


def _without_empty_lists(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_empty_lists(value) for name, value in node.items() if value != []}
    return [_without_empty_lists(value) for value in node] if isinstance(node, list) else node
