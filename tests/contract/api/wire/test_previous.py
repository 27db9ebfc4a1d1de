"""The code of the previous release reads the documents of this tree; those of released versions never change."""

import json
import re
from typing import NamedTuple

import pytest

from eventconsumer_api.wire.document import WireDocument
from tests.golden.documents import DEFAULTS, DOCUMENTS, fields, generate, has, kind
from tests.golden.versions import Version, versions
from tests.support.previous import ROOT, Previous, git, need_commit

MODELS = {kind(model): model for model in DOCUMENTS}
RELEASED = pytest.mark.parametrize(
    "version", [each for each in versions() if each.commit], ids=lambda version: version.name
)
READ = """
import json
import sys

from pydantic import ValidationError

from eventconsumer_api.wire.document import misfit
from tests.golden.documents import DOCUMENTS, generate, kind
from tests.golden.versions import versions

models = {kind(model): model for model in DOCUMENTS}
read = {}
for name, text in json.load(sys.stdin).items():
    if model := models.get(name.rpartition("-")[0]):
        try:
            read[name] = model.model_validate_json(text).to_json(indent=2) + "\\n"
        except ValidationError as error:
            read[name] = misfit(error)
print(json.dumps({"read": read, "written": generate(versions()[-1])}))
"""


class Answers(NamedTuple):
    """What the previous release makes of today's documents, and the documents that it writes, by names of files."""

    read: dict[str, str]
    written: dict[str, str]


def model_of(name: str) -> type[WireDocument]:
    return MODELS[name.rpartition("-")[0]]


@pytest.fixture(scope="module")
def today() -> dict[str, str]:
    return {name: text for name, text in generate(versions()[-1]).items() if name != DEFAULTS}


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory, today: dict[str, str]) -> Answers:
    return Answers(**Previous.check_out(tmp_path_factory.mktemp("previous")).run(READ, today))


def test_the_previous_release_reads_what_is_written_where_nothing_new_is_used(
    previous: Answers, today: dict[str, str]
) -> None:
    minimal = {name: text for name, text in today.items() if name in previous.read and name.endswith("-minimal.json")}
    assert minimal
    assert {name: previous.read[name] for name in minimal} == minimal


def test_the_previous_release_ignores_new_fields_or_names_them(previous: Answers, today: dict[str, str]) -> None:
    for name, text in today.items():
        if name not in previous.read:
            continue  # a new kind
        model, then = model_of(name), json.loads(previous.written[name])
        new = {each.path[-1] for each in fields(model) if has(json.loads(text), each.path) and not has(then, each.path)}
        if new and model.model_config["extra"] == "forbid":
            named = re.findall(r"(\w+): this version does not know the field", previous.read[name])
            assert named and new.issuperset(named), previous.read[name]
        else:
            assert previous.read[name] == previous.written[name]


def test_what_the_previous_release_writes_is_read(previous: Answers) -> None:
    for name, text in previous.written.items():
        if name != DEFAULTS:
            assert model_of(name).model_validate_json(text).to_json(indent=2) + "\n" == text


@RELEASED
def test_documents_of_a_released_version_are_those_of_its_commit(version: Version) -> None:
    commit, folder = need_commit(version.commit), version.folder.relative_to(ROOT).as_posix()
    names = git("ls-tree", "--name-only", f"{commit}:{folder}").splitlines()
    then = {name: git("show", f"{commit}:{folder}/{name}") for name in names}
    now = {path.name: path.read_text(encoding="utf-8").strip() for path in version.folder.iterdir()}
    assert now == then, f"documents of a released version never change: git checkout {commit} -- {folder}"
