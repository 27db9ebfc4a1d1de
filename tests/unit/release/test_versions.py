"""A version is released only where every place says it, and each place that does not is named."""

import shutil
from pathlib import Path

import pytest

from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.versions import DECODER, PRODUCT, check, distributions, reference

ROOT = Path(__file__).parents[3]
NOW = "0.1.0"
_PLACES = (
    f"{DECODER}/Cargo.toml",
    f"{DECODER}/Cargo.lock",
    "helm/eventconsumer/Chart.yaml",
    "helm/eventconsumer/values.yaml",
    "kustomize/base/operator.yaml",
    "kustomize/base-cluster/operator.yaml",
)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The places of this repository that state a version, all at one version."""
    own = [f"{folder}/pyproject.toml" for folder in distributions(ROOT)]
    for place in [*_PLACES, *own]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    return tmp_path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def distributions_version(root: Path) -> str:
    """The version of the sources, where all places agree."""
    version = (root / "crds/pyproject.toml").read_text().split('version = "')[1].split('"')[0]
    check(root, version)
    return version


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("operator/pyproject.toml", "operator/pyproject.toml, version: says 9.9.9; write "),
        (f"{DECODER}/pyproject.toml", f"{DECODER}/pyproject.toml, version: says 9.9.9; write "),
        (f"{DECODER}/Cargo.toml", f"{DECODER}/Cargo.toml, version: says 9.9.9; write "),
        (f"{DECODER}/Cargo.lock", "Cargo.lock, version (written by `cargo update --workspace --offline`): says"),
        ("helm/eventconsumer/Chart.yaml", "Chart.yaml, appVersion: says 9.9.9; write "),
        ("helm/eventconsumer/values.yaml", "image.spark: says eventconsumer/spark:9.9.9; write eventconsumer/spark:"),
        (
            "kustomize/base-cluster/operator.yaml",
            "kustomize/base-cluster/operator.yaml, the image of processor (made by",
        ),
    ],
)
def test_a_place_that_disagrees_is_named_with_the_remedy(sources: Path, place: str, told: str) -> None:
    version = distributions_version(sources)
    change(sources / place, version, "9.9.9")
    with pytest.raises(ReleaseError) as refused:
        check(sources, version)
    assert told in str(refused.value)
    others = [other for other in _PLACES if other != place]
    assert not [other for other in others if other in str(refused.value)]


def test_another_version_names_every_place(sources: Path) -> None:
    with pytest.raises(ReleaseError) as refused:
        check(sources, "7.0.0")
    for place in [*_PLACES, *(f"{folder}/pyproject.toml" for folder in distributions(ROOT))]:
        assert place in str(refused.value)
    (sources / "spark/pyproject.toml").unlink()  # no distribution any more
    assert distributions(sources) == [name for name in PRODUCT if name in distributions(ROOT) and name != "spark"]


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "01.2.3", "1.2.3-snapshot", "1.2.3 ", "1.2.3-rc1", "1.2.3\n"])
def test_a_text_that_is_no_version_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ReleaseError, match="is no version"):
        check(tmp_path, text)


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("", "eventconsumer/spark:1.2.0"),
        ("registry.example.com/team", "registry.example.com/team/eventconsumer/spark:1.2.0"),
        ("registry.example.com/team/", "registry.example.com/team/eventconsumer/spark:1.2.0"),
    ],
)
def test_references(registry: str, expected: str) -> None:
    assert reference("spark", "1.2.0", registry) == expected
