"""PURE but for reading files: where a version is written, and whether all places agree."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from eventconsumer_release.errors import ReleaseError

_SEMVER = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-(alpha|beta|rc)\.(0|[1-9]\d*))?")
_BASES = ("kustomize/base", "kustomize/base-cluster")
IMAGES = ("operator", "processor", "spark")
DECODER = "processor_image/decoder"
PRODUCT = ("crds", "storage", "operator", "processor_image", DECODER, "spark", "cli")


def distributions(root: Path) -> list[str]:
    """Folders of the distributions that are released."""
    return [name for name in PRODUCT if (root / name / "pyproject.toml").is_file()]


def check(root: Path, version: str) -> None:
    """Compare a version with every place that states one.

    Args:
        root: The repository.
        version: As SemVer writes it: `1.2.0`, or `1.2.0-rc.1` for a preview.

    Raises:
        ReleaseError: It is no version, or places disagree: all of them are named, each with what to write.
    """
    if not _SEMVER.fullmatch(version):
        raise ReleaseError(
            f"VERSION={version or '(not set)'} is no version. Give one as SemVer writes it: "
            "make release VERSION=1.2.0, or 1.2.0-rc.1 for a preview."
        )
    if wrong := [
        f"  {place}: says {says}; write {want}" for place, says, want in _places(root, version) if says != want
    ]:
        raise ReleaseError("\n".join([f"The sources are not at version {version}. Change and commit:", *wrong]))


def _places(root: Path, version: str) -> Iterator[tuple[str, str, str]]:
    for folder in distributions(root):
        project = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]
        yield f"{folder}/pyproject.toml, version", project["version"], version
    if DECODER in distributions(root):
        crate = tomllib.loads((root / DECODER / "Cargo.toml").read_text())["package"]
        yield f"{DECODER}/Cargo.toml, version", crate["version"], version
        locked = tomllib.loads((root / DECODER / "Cargo.lock").read_text())["package"]
        own = next((each["version"] for each in locked if each["name"] == crate["name"]), "none")
        yield f"{DECODER}/Cargo.lock, version (written by `cargo update --workspace --offline`)", own, version
    chart = yaml.safe_load((root / "helm/eventconsumer/Chart.yaml").read_text())
    for field in ("version", "appVersion"):
        yield f"helm/eventconsumer/Chart.yaml, {field}", str(chart[field]), version
    values = yaml.safe_load((root / "helm/eventconsumer/values.yaml").read_text())
    for image in IMAGES:
        yield f"helm/eventconsumer/values.yaml, image.{image}", values["image"][image], reference(image, version)
    for base in _BASES:
        text = (root / base / "operator.yaml").read_text()
        for image in IMAGES:
            found = re.search(rf"eventconsumer/{image}:[\w.-]+", text)
            place = f"{base}/operator.yaml, the image of {image} (made by `make chart`)"
            yield place, found[0] if found else "none", reference(image, version)


def reference(image: str, version: str, registry: str = "") -> str:
    """Reference of an image.

    Args:
        image: One of `IMAGES`.
        version: Its tag.
        registry: What it is pulled from, such as `registry.example.com/team`; empty: nothing before the name.
    """
    return f"{registry.rstrip('/')}/eventconsumer/{image}:{version}".lstrip("/")
