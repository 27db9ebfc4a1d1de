"""The chart's package and install.yaml: of this repository, with the images of the release."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_release import archive, manifests
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.versions import IMAGES, PLACEHOLDER, reference

ROOT = Path(__file__).parents[3]
VERSION = str(yaml.safe_load((ROOT / "helm/eventconsumer/Chart.yaml").read_text())["version"])
REGISTRY = "registry.example.com/team"
TIME = 1_700_000_000
PINNED = {image: f"{reference(image, VERSION, REGISTRY)}@sha256:{n:064x}" for n, image in enumerate(IMAGES)}


def members(package: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        return {entry.name: (entry, tar.extractfile(entry).read()) for entry in tar}  # type: ignore[union-attr]


def installed(images: dict[str, str]) -> list[dict[str, Any]]:
    return list(yaml.load_all(manifests.install(ROOT, VERSION, images), yaml.CSafeLoader))


def test_an_archive_does_not_depend_on_its_builder() -> None:
    files = {"b": b"2", "a/x": b"1"}
    package = archive.packed(files, frozenset({"a/x"}), TIME)
    found = members(package)
    assert {name: content for name, (_, content) in found.items()} == files
    assert list(found) == ["a/x", "b"]
    assert [(entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname) for entry, _ in found.values()] == [
        (0o755, TIME, 0, 0, ""),
        (0o644, TIME, 0, 0, ""),
    ]
    assert archive.packed(dict(reversed(files.items())), frozenset({"a/x"}), TIME) == package


def test_the_package_is_the_chart_with_the_release_s_images() -> None:
    found = members(manifests.chart_package(ROOT, PINNED, TIME))
    chart = ROOT / "helm/eventconsumer"
    assert set(found) == {f"eventconsumer/{path.relative_to(chart)}" for path in chart.rglob("*") if path.is_file()}
    values = yaml.safe_load(found["eventconsumer/values.yaml"][1])
    expected = yaml.safe_load((chart / "values.yaml").read_text())
    assert values == expected | {"image": expected["image"] | PINNED}
    assert found["eventconsumer/Chart.yaml"][1] == (chart / "Chart.yaml").read_bytes()
    without = members(manifests.chart_package(ROOT, {}, TIME))
    assert without["eventconsumer/values.yaml"][1] == (chart / "values.yaml").read_bytes()


@pytest.mark.slow
def test_install_has_the_namespaces_first_and_the_bases_with_images_of_the_registry() -> None:
    base = [
        document
        for name in ("crds/eventconsumers.yaml", "kustomize/base/operator.yaml", "kustomize/served/namespace.yaml")
        for document in yaml.load_all((ROOT / name).read_text(), yaml.CSafeLoader)
    ]
    own, served, *documents = installed({image: reference(image, VERSION, PLACEHOLDER) for image in IMAGES})
    assert [own["kind"], served["kind"]] == ["Namespace", "Namespace"]
    assert documents == base
    assert {each["metadata"].get("namespace") for each in base} - {None} == {
        own["metadata"]["name"],
        served["metadata"]["name"],
    }
    (deployment,) = [document for document in installed(PINNED) if document["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--namespace={served['metadata']['name']}" in container["args"]
    assert container["image"] == PINNED["operator"]
    for image in ("processor", "spark"):
        assert f"--{image}-image={PINNED[image]}" in container["args"]


def test_an_image_without_a_place_in_the_chart_is_refused() -> None:
    with pytest.raises(ReleaseError, match='has 0 lines `proxy: ""`'):
        manifests.chart_package(ROOT, {"proxy": "registry.example.com/proxy@sha256:00"}, TIME)
