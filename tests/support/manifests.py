"""Manifests in the documentation and in examples/, for the tests that check them."""

from collections.abc import Iterator
from typing import Any

import yaml

from docs.generate.pages import ROOT, Block, blocks, pages

SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
LEAST = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
}
"""What a part of a spec is put into, to look at the part."""
OUTPUT = {"path": "abfss://results@account.dfs.core.windows.net/orders"}
"""And a part of `spark`."""


def _is_yaml(block: Block) -> bool:
    return block.language in {"yaml", "yml"} or (not block.language and block.text.startswith(("apiVersion:", "spec:")))


YAML = [
    *(block for page in pages() for block in blocks(page) if _is_yaml(block)),
    *(Block(file, 1, "yaml", file.read_text()) for file in sorted((ROOT / "examples").glob("*.yaml"))),
]


def documents(block: Block) -> Iterator[dict[str, Any]]:
    """The YAML documents of a block."""
    for document in yaml.safe_load_all(block.text):
        assert isinstance(document, dict), f"{block} is no object"
        yield document


def whole(part: dict[str, Any]) -> dict[str, Any]:
    """A spec of which a page shows a part."""
    spark = {"spark": {"output": OUTPUT}} if "spark" in part else {}
    return dict(merged(LEAST | spark, part))


def merged(base: Any, part: Any) -> Any:
    """An object with a part of it replaced."""
    if isinstance(base, dict) and isinstance(part, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in part.items()}}
    return part
