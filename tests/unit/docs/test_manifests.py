"""Manifests in the documentation and in examples/ are valid: ours by the models, others in their shape."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from eventconsumer_api.v1alpha1 import EventConsumerSpec
from tests.docpages import ROOT, Block, blocks, pages

SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
LEAST = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "leaseStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
}
"""What a part of a spec is put into, to look at the part."""
VALUES = yaml.safe_load((ROOT / "helm/eventconsumer/values.yaml").read_text())


def _is_yaml(block: Block) -> bool:
    return block.language in {"yaml", "yml"} or (not block.language and block.text.startswith(("apiVersion:", "spec:")))


YAML = [
    *(block for page in pages() for block in blocks(page) if _is_yaml(block)),
    *(Block(file, 1, "yaml", file.read_text()) for file in sorted((ROOT / "examples").glob("*.yaml"))),
]


def documents(block: Block) -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all(block.text):
        assert isinstance(document, dict), f"{block} is no object"
        yield document


def merged(base: Any, part: Any) -> Any:
    if isinstance(base, dict) and isinstance(part, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in part.items()}}
    return part


def known(values: Any, tree: Any, path: str = "") -> None:
    """Every key of some values is one of the chart's."""
    if isinstance(tree, dict) and tree:
        for key, value in values.items():
            assert key in tree, f"the chart has no value {path}{key}"
            known(value, tree[key], f"{path}{key}.")


@pytest.mark.parametrize("block", YAML, ids=str)
def test_manifests_are_valid(block: Block) -> None:
    for document in documents(block):
        kind = document.get("kind")
        if kind == "EventConsumer":
            assert document["apiVersion"] == "eventconsumer.io/v1alpha1"
            assert document["metadata"]["name"]
            EventConsumerSpec.model_validate(_filled(document["spec"]))
        elif kind:
            assert "/" in document["apiVersion"] or document["apiVersion"] == "v1"
            assert "metadata" in document or kind == "Kustomization", f"{block}: {kind} has no metadata"
        elif document.keys() == {"spec"}:
            EventConsumerSpec.model_validate(merged(LEAST, _filled(document["spec"])))
        elif document.keys() <= VALUES.keys():
            known(document, VALUES)
        else:
            assert not document.keys() & VALUES.keys(), f"{block}: is it values of the chart, or what?"


def _filled(spec: dict[str, Any]) -> dict[str, Any]:
    """Placeholders such as <account> become names."""
    text = yaml.safe_dump(spec)
    return dict(yaml.safe_load(text.replace("<account>", "account")))


def test_all_kinds_of_blocks_are_seen() -> None:
    found = [document for block in YAML for document in documents(block)]
    assert sum(document.get("kind") == "EventConsumer" for document in found) >= 6
    assert any(document.keys() == {"spec"} for document in found)
    assert any(document.keys() <= VALUES.keys() for document in found)
