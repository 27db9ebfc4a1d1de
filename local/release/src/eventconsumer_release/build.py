"""The steps of a release, from a commit to a folder of files."""

import hashlib
import shutil
import sys
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
        registry: Registry of the release's images; written into the chart and install.yaml.
        images: Whether to build the images as OCI archives too; needs root, minutes and 2 GB.

    Returns:
        The folder.

    Raises:
        ReleaseError: The working copy has changes, or another version.
        ClusterError: A program failed; its last lines are in the message.
    """
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
        with progress.step("the chart, install.yaml and the changelog"):
            package = manifests.chart_package(sources, version, registry, commit.time)
            (made / f"eventconsumer-{version}.tgz").write_bytes(package)
            (made / "install.yaml").write_text(manifests.install(sources, version, registry))
            (made / "CHANGELOG.md").write_text(notes)
        with progress.step("the bill of materials"):
            (made / "sbom.cdx.json").write_text(materials.document(sources, version, commit, wheels))
        if builder:
            builder.build(progress)
            builder.save({name: _archive(made, name, version, registry) for name in versions.IMAGES}, progress)
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
    return folder / f"eventconsumer-{image}-{version}.oci.tar", versions.reference(image, version, registry)


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
