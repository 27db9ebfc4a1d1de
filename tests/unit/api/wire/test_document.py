"""What crosses versions: each version's documents are read by today's code, and today's by the code of each version."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from eventconsumer_api.shared.model import FIRST_VERSION, Since
from eventconsumer_api.v1alpha1 import Processing
from eventconsumer_api.wire.document import WireDocument, misfit
from eventconsumer_api.wire.fleet import FleetMessage
from eventconsumer_api.wire.host_config import HostConfig
from tests.golden.documents import DEFAULTS, DOCUMENTS, changed, defaults, fields, has, kind, objects, order
from tests.golden.versions import Version, parse, versions

ROOT = Path(__file__).parents[4]
SOURCES = [path for path in ROOT.glob("*/src/**/*.py") if "local" not in path.parts]
NEWEST = versions()[-1]
REFUSED = {model.__name__ for model in DOCUMENTS if model.model_config["extra"] == "forbid"}
UNKNOWN = "ofALaterVersion"
EACH = pytest.mark.parametrize("model", DOCUMENTS, ids=kind)


def golden(model: type[WireDocument], version: Version, name: str) -> str:
    return version.read(f"{kind(model)}-{name}.json")


EACH_VERSION = pytest.mark.parametrize("version", versions(), ids=lambda version: version.name)
EACH_OF_A_VERSION = pytest.mark.parametrize(
    ("version", "model"),
    [
        pytest.param(version, model, id=f"{version.name}-{kind(model)}")
        for version in versions()
        for model in DOCUMENTS
        if golden(model, version, "full")
    ],
)


# --- the documents of each version -----------------------------------------------------------------------------------


@EACH_OF_A_VERSION
@pytest.mark.parametrize("name", ["minimal", "full"])
def test_documents_of_each_version_are_read_and_written_as_then(
    version: Version, model: type[WireDocument], name: str
) -> None:
    text = golden(model, version, name)
    try:
        read = model.model_validate_json(text)
    except ValidationError as error:
        pytest.fail(
            f"{model.__name__} of version {version.name} cannot be read ({error.errors()[0]['loc']}): a field that is "
            "added is optional, and none is removed, renamed or narrowed"
        )
    assert read.to_json(indent=2) + "\n" == text, (
        f"{model.__name__} of version {version.name} is written differently: a field that is added has a default, "
        "which is not written; none is removed, renamed or moved"
    )


@EACH_OF_A_VERSION
def test_a_field_that_is_added_says_its_version(version: Version, model: type[WireDocument]) -> None:
    text = json.loads(golden(model, version, "full"))
    for each in fields(model):
        assert each.constant or order(each.since) > version.order or has(text, each.path), (
            f"{model.__name__}.{'.'.join(each.path)} is not in the documents of version {version.name}: "
            + ('annotate it with Since("<the next version>")' if version.commit else "run `make golden`")
        )


@EACH
def test_a_field_names_a_version_that_exists(model: type[WireDocument]) -> None:
    names = {each.name for each in versions()}
    assert {each.since for each in fields(model)} <= names, (
        f"add the version to {NEWEST.folder.parent}/versions.txt"
        if NEWEST.commit
        else f"{NEWEST.name} is not released, so new fields belong to it: correct `Since`"
    )
    assert versions()[0].name == FIRST_VERSION


@EACH_VERSION
def test_a_default_never_changes_because_it_is_not_written(version: Version) -> None:
    then, now = json.loads(version.read(DEFAULTS)), defaults(version)
    assert {name: now.get(name) for name in then} == then, (
        "programs of other versions take the old default: keep it, and add a field"
    )


def test_the_documents_of_a_coming_version_are_those_of_today() -> None:
    for version in (each for each in versions() if not each.commit):
        there = {path.name: path.read_text(encoding="utf-8") for path in version.folder.iterdir()}
        assert there == changed(version), "run `make golden`"


# --- a program of another version ------------------------------------------------------------------------------------


def with_unknown_field(model: type[WireDocument]) -> Iterator[str]:
    """The full document with an unknown field, in each of its objects."""
    text = golden(model, NEWEST, "full")
    for place in range(len([*objects(model, json.loads(text))])):
        document = json.loads(text)
        [*objects(model, document)][place][UNKNOWN] = {"a": [1]}
        yield json.dumps(document)


@EACH
def test_an_unknown_field_is_ignored_in_all_parts_or_refused_by_name(model: type[WireDocument]) -> None:
    known = model.model_validate_json(golden(model, NEWEST, "full"))
    for text in with_unknown_field(model):
        if model.__name__ not in REFUSED:
            assert model.model_validate_json(text) == known
            continue
        with pytest.raises(ValidationError) as caught:
            model.model_validate_json(text)
        message = misfit(caught.value)
        assert f"{UNKNOWN}: this version does not know the field: the image is older than the operator" in message
        assert "or remove the field from the resource" in message


def test_requests_that_decide_what_is_written_are_refused_and_all_others_tolerant() -> None:
    assert {"HostConfig", "BatchJob", "RegistryCheck", "Decoding"} == REFUSED


class NewerProcessing(Processing):
    """As a developer adds a field to the spec."""

    later: Annotated[int, Since("9.9.0")] = 1


class NewerHostConfig(HostConfig):
    processing: NewerProcessing
    calm: Annotated[bool, Since("9.9.0")] = False


class NewerFleetMessage(FleetMessage):
    calm: Annotated[bool, Since("9.9.0")] = False


def test_a_new_optional_field_changes_no_digest_and_no_document_where_it_is_not_used() -> None:
    text = golden(HostConfig, NEWEST, "minimal")
    old, new = HostConfig.model_validate_json(text), NewerHostConfig.model_validate_json(text)
    assert new.digest() == old.digest()
    assert HostConfig.model_validate_json(new.to_json()) == old


@pytest.mark.parametrize("used", [{"calm": True}, {"processing": {"later": 2}}])
def test_an_older_host_refuses_a_new_field_only_where_it_is_used(used: dict[str, Any]) -> None:
    text = json.loads(golden(HostConfig, NEWEST, "minimal")) | used
    new = NewerHostConfig.model_validate(text)
    with pytest.raises(ValidationError) as caught:
        HostConfig.model_validate_json(new.to_json())
    name = "calm" if "calm" in used else "processing.later"
    assert misfit(caught.value).startswith(f"{name}: this version does not know the field: ")


def test_an_older_host_ignores_a_new_field_of_a_message() -> None:
    text = golden(FleetMessage, NEWEST, "full")
    new = NewerFleetMessage.model_validate_json(text).model_copy(update={"calm": True})
    assert FleetMessage.model_validate_json(new.to_json()) == FleetMessage.model_validate_json(text)


def test_a_document_without_a_field_names_field_and_remedy() -> None:
    with pytest.raises(ValidationError) as caught:
        HostConfig.model_validate_json("{}")
    assert misfit(caught.value).startswith("resource: Field required; eventHub: Field required; ")
    assert misfit(caught.value).endswith(": run the operator and this image at the same version")


class Part(WireDocument):
    kept: tuple[int, ...] | None = (1,)
    always: int | None


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (Part(always=None), '{"always":null}'),
        (Part(kept=(), always=1), '{"kept":[],"always":1}'),
        (Part(kept=None, always=1), '{"kept":null,"always":1}'),
    ],
)
def test_what_is_not_the_default_is_written_and_read_again(given: Part, written: str) -> None:
    assert given.to_json() == written
    assert Part.model_validate_json(written) == given


# --- the rules are kept everywhere -----------------------------------------------------------------------------------


def test_every_document_has_golden_ones() -> None:
    found = {
        name for path in SOURCES for name in re.findall(r"class (\w+)\([^)]*WireDocument", path.read_text("utf-8"))
    }
    assert {model.__name__ for model in DOCUMENTS} == found, "add the class to tests/golden/documents.py: DOCUMENTS"
    names = {f"{kind(model)}-{name}.json" for model in DOCUMENTS for name in ("minimal", "full")} | {DEFAULTS}
    there = {path.name for version in versions() for path in version.folder.iterdir()}
    assert there <= names, "other versions still have documents of this kind: keep its class and its name"
    assert names <= there, "a kind begins with the next version: add that to versions.txt, and run `make golden`"
    page = (ROOT / "docs/contributing/wire.md").read_text("utf-8")
    assert [name for name in found if f"`{name}`" not in page] == [], "add it to the table of docs/contributing/wire.md"


OTHERS = {
    "eventconsumer_api/wire/document.py": "to_json itself",
    "eventconsumer_operator/rest.py": "a digest in memory",
    "eventconsumer_operator/page/server.py": "the page and its data come from one process",
    "eventconsumer_tools/commands/apply.py": "a backup in the form of the output of checkpoint export",
}


def test_documents_are_written_by_their_own_method() -> None:
    texts = {path.as_posix().partition("/src/")[2]: path.read_text("utf-8") for path in SOURCES}
    found = {name for name, text in texts.items() if re.search(r"\.model_dump_json\(|exclude_if", text)}
    assert found == OTHERS.keys(), "write a WireDocument by to_json(); defaults are never written, without exclude_if"


# --- versions.txt ----------------------------------------------------------------------------------------------------


def test_versions_are_read() -> None:
    text = f"# comment\n\n0.1.0-alpha {'a' * 40}\n0.2.0\n"
    assert parse(text) == (Version("0.1.0-alpha", 0, "a" * 40), Version("0.2.0", 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1.0-alpha main\n", "is no version and commit id"),
        ("v0.1.0\n", "is no version and commit id"),
        ("0.1.0\n0.2.0\n", "version 0.1.0 has no commit id, but a later version follows"),
    ],
)
def test_a_wrong_line_of_the_versions_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)
