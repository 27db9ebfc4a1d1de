"""The reference page says what the CRD says: all of it, and nothing else."""

import re
from pathlib import Path
from typing import Any

from eventconsumer_api.resource import reference
from eventconsumer_api.resource.crdgen import custom_resource_definition

PAGE = Path(__file__).parents[3] / "docs/reference/eventconsumer.md"
TEXT = reference.render()
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
UNITS = {
    "econds": r"second|Age of the oldest|time an application",
    "ytes": r"[Bb]ytes",
}


def test_the_committed_page_equals_the_generated_one() -> None:
    assert PAGE.read_text() == TEXT, "it drifted: run `make crds`"


def fields(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Every field below a schema, by path."""
    found = []
    for name, sub in schema.get("properties", {}).items():
        found += [(f"{path}.{name}", sub), *fields(sub, f"{path}.{name}")]
    for inner, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(inner), dict):
            found += fields(schema[inner], path + suffix)
    return found


FIELDS = [each for part in ("spec", "status") for each in fields(SCHEMA["properties"][part], part)]


def sections() -> dict[str, str]:
    parts = re.split(r"^##+ (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_field_stands_in_the_section_of_its_object_or_of_an_equal_one() -> None:
    found = sections()
    assert len(FIELDS) > 150
    links = dict(re.findall(r"^\| \**(\w+)\** \| [^|]*\]\((#[a-z]*)\)", TEXT, flags=re.MULTILINE))
    assert links["eventHub"] == "#speceventhub"
    for path, sub in FIELDS:
        parent, name = path.rpartition(".")[::2]
        # Elsewhere only an object that is equal to this one; its row for the field says the same.
        text = found.get(parent) or "\n".join(found.values())
        description = re.escape(sub.get("description", "").replace("|", "\\|"))
        assert re.search(rf"^\| \**{name}\** \|.*{description}", text, flags=re.MULTILINE), path


def test_every_link_leads_to_a_section_and_every_row_has_five_cells() -> None:
    anchors = {"#" + re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in sections()}
    links = re.findall(r"\]\((#[^)]*)\)", TEXT)
    assert len(links) > 20
    assert set(links) <= anchors
    for line in TEXT.splitlines():
        if line.startswith("| ") and not line.startswith(("| column", "| Ready", "| Hub")):
            assert len(re.split(r"(?<!\\)\|", line)) in {7, 4}, line


def test_kubectl_explain_has_a_sentence_with_the_unit_for_every_field() -> None:
    for path, sub in FIELDS:
        description = sub.get("description", "")
        assert description.endswith("."), f"{path}: {description}"
        assert description[0].isupper() or description[0] in "$`", path
        for ending, unit in UNITS.items():
            if path.endswith(ending):
                assert re.search(unit, description), f"{path} does not name its unit: {description}"
