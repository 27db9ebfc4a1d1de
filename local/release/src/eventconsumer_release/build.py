"""The steps of a release, from a commit to a folder of files."""

import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from eventconsumer_release import changelog, manifests, materials, source, versions
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.source import Commit
from local_cluster.images.builder import Builder
from local_cluster.layout import REPOSITORY, Layout
from local_cluster.progress import Progress
from local_cluster.shell import run

SUMS = "SHA256SUMS"
STEPS = 5


def release(root: Path, version: str, *, registry: str = "", images: bool = True) -> Path:
    """Build all files of a release into `dist/`, replacing its content.

    Args:
        root: The repository.
        version: Version of the release; the sources must have the same.
        registry: Registry of the release's images. The chart and install.yaml name them by digest. Empty: the chart has
            no default images, and there is no install.yaml.
        images: Whether to build the images as OCI archives too; needs root, minutes and 2 GB. Required with a registry.

    Returns:
        The folder.

    Raises:
        ReleaseError: The working copy has changes, or another version, or a registry is given without images.
        ClusterError: A program failed; its last lines are in the message.
    """
    if registry and not images:
        raise ReleaseError(
            "With REGISTRY the chart names images by digest, and only built images have one. Build them, or omit "
            "REGISTRY: the chart then has no default images, and its users set them."
        )
    builder = _builder(root) if images else None
    progress = Progress(STEPS + (builder.steps() + len(builder.images) if builder else 0))
    with progress.step(f"checking that the sources have version {version}"):
        commit = source.head(root)
        versions.check(root, version)
        notes = changelog.section((root / "CHANGELOG.md").read_text(), version)
    scratch = root / "build"  # ignored by Git
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=scratch) as folder:
        sources, made = Path(folder) / "sources", Path(folder) / "dist"
        made.mkdir()
        source.export(root, commit, sources)
        with progress.step("wheels and source distributions"):
            wheels = _distributions(sources, commit, made)
        if builder:
            builder.build(progress)
            builder.save({name: _archive(made, name, version, registry) for name in versions.IMAGES}, progress)
        with progress.step("the chart, install.yaml and the changelog"):
            pinned = {
                name: versions.pinned(name, image_digest(_archive(made, name, version, registry)[0]), registry)
                for name in (versions.IMAGES if registry else ())
            }
            (made / f"eventconsumer-{version}.tgz").write_bytes(manifests.chart_package(sources, pinned, commit.time))
            if pinned:
                (made / "install.yaml").write_text(manifests.install(sources, version, pinned))
            (made / "CHANGELOG.md").write_text(notes)
        with progress.step("the bill of materials"):
            (made / "sbom.cdx.json").write_text(materials.document(sources, version, commit, wheels))
        with progress.step(SUMS):
            (made / SUMS).write_text(sums(made))
        target = root / "dist"
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    progress.finish(f"{version} of commit {commit.id[:12]} is in {target}")
    return target


def sums(folder: Path) -> str:
    """Checksums for `sha256sum -c`: a line for each file of a folder."""
    return "".join(f"{_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()))


def _builder(root: Path) -> Builder:
    if root.resolve() != REPOSITORY:
        raise ReleaseError(f"Images are built of {REPOSITORY} only: run `make release` there, or without images.")
    return Builder(Layout.from_environment(), list(versions.IMAGES))


def _archive(folder: Path, image: str, version: str, registry: str) -> tuple[Path, str]:
    return folder / f"eventconsumer-{image}-{version}.oci.tar", versions.reference(
        image, version, registry or versions.LOCAL
    )


def image_digest(file: Path) -> str:
    """Digest of the manifest of the only image in an OCI archive; it stays when the archive is pushed unchanged.

    Source: github.com/opencontainers/image-spec, image-layout.md, index.json.
    """
    with tarfile.open(file) as archive:
        index = archive.extractfile("index.json")
        if index is None:
            raise ReleaseError(f"{file.name} has no index.json: it is not an OCI archive. Build the images again.")
        (manifest,) = json.load(index)["manifests"]
    return str(manifest["digest"])


def _distributions(sources: Path, commit: Commit, target: Path) -> dict[str, str]:
    """Build the Python distributions; SHA-256 of each wheel, by the distribution's name."""
    for folder in versions.distributions(sources):
        shutil.copyfile(sources / "LICENSE", sources / folder / "LICENSE")  # each wheel can be distributed alone
        command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--directory", target.resolve()]
        run(command, cwd=sources / folder, env={"SOURCE_DATE_EPOCH": str(commit.time)})
    return {path.name.partition("-")[0].replace("_", "-"): _digest(path) for path in sorted(target.glob("*.whl"))}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
