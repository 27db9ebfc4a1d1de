"""Manifests in the documentation and in examples/ are valid: ours by the models, others in their shape."""

from typing import Any

import pytest
import yaml

from docs.generate.pages import ROOT, Block
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from tests.support.manifests import YAML, documents, whole

VALUES = yaml.safe_load((ROOT / "helm/eventconsumer/values.yaml").read_text())


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
            EventConsumerSpec.model_validate(document["spec"])
        elif kind:
            assert "/" in document["apiVersion"] or document["apiVersion"] == "v1"
            assert "metadata" in document or kind == "Kustomization", f"{block}: {kind} has no metadata"
        elif document.keys() == {"spec"}:
            EventConsumerSpec.model_validate(whole(document["spec"]))
        elif document.keys() <= VALUES.keys():
            known(document, VALUES)
        else:
            assert not document.keys() & VALUES.keys(), f"{block}: is it values of the chart, or what?"


def test_all_kinds_of_blocks_are_seen() -> None:
    found = [document for block in YAML for document in documents(block)]
    assert sum(document.get("kind") == "EventConsumer" for document in found) >= 6
    assert any(document.keys() == {"spec"} for document in found)
    assert any(document.keys() <= VALUES.keys() for document in found)
