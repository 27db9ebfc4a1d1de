"""The steps of a release, from a commit to a folder of files."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eventconsumer_release import changelog, inventory, manifests, materials, oci, provenance, source, versions
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.oci import Image
from eventconsumer_release.signing import Key
from eventconsumer_release.source import Commit
from local_cluster.progress import Progress
from local_cluster.shell import run

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
PROVENANCE = "provenance.intoto.json"
ARCHIVE = ".oci.tar"
STEPS = 5


class Images(Protocol):
    """A builder of images: `local_cluster.images.builder.Builder`."""

    def steps(self) -> int:
        """The number of steps of `build`."""

    def build(self, progress: Progress) -> None:
        """Build `versions.IMAGES`."""

    def save(self, targets: Mapping[str, tuple[Path, str]], progress: Progress) -> None:
        """Write images to OCI archives: file, and the reference it gives the image, by the image's name."""


def release(
    root: Path, version: str, *, registry: str = "", images: Images | None = None, key: Key | None = None
) -> Path:
    """Build all files of a release into `dist/`, replacing its content.

    Args:
        root: The repository.
        version: Version of the release; the sources must have the same.
        registry: Registry of the release's images. The chart and install.yaml name them by digest. Empty: the chart has
            no default images, and there is no install.yaml.
        images: Builds the images, which needs root, minutes and 2 GB. Required with a registry.
        key: Signs the release; None: the release is not signed.

    Returns:
        The folder.

    Raises:
        ReleaseError: The working copy has changes, or another version; or a registry is given without images; or a
            signed release lacks them.
        ClusterError: A program failed; its last lines are in the message.
    """
    if key and not (images and registry):
        raise ReleaseError(
            "A signed release names its images by registry and digest: set REGISTRY, such as "
            "registry.example.com/team, and do not set IMAGES=no."
        )
    if registry and not images:
        raise ReleaseError(
            "With REGISTRY the chart names images by digest, and only built images have one. Build them, or omit "
            "REGISTRY: the chart then has no default images, and its users set them."
        )
    progress = Progress(STEPS + (images.steps() + 2 * len(versions.IMAGES) if images else 0) + bool(key))
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
        references = {name: versions.reference(name, version, registry or versions.LOCAL) for name in versions.IMAGES}
        built: list[_Built] = []
        if images:
            images.build(progress)
            archives = {name: made / f"eventconsumer-{name}-{version}{ARCHIVE}" for name in versions.IMAGES}
            images.save({name: (archives[name], references[name]) for name in archives}, progress)
            for name, path in archives.items():
                with progress.step(f"the bill of materials of {name}"):
                    built.append(_described(sources, name, path, references[name], commit))
        pinned = {each.name: f"{each.reference}@{each.image.digest}" for each in built} if registry else {}
        with progress.step("the chart, install.yaml and the changelog"):
            package = manifests.chart_package(sources, pinned, commit.time)
            (made / f"eventconsumer-{version}.tgz").write_bytes(package)
            if pinned:
                (made / "install.yaml").write_text(manifests.install(sources, version, pinned))
            (made / "CHANGELOG.md").write_text(notes)
        with progress.step("the bill of materials"):
            (made / "sbom.cdx.json").write_text(materials.document(sources, version, commit, wheels))
        if key:
            with progress.step("provenance and signatures of images"):
                digests = {each.reference: each.image.digest.removeprefix("sha256:") for each in built}
                files = {path.name: _digest(path) for path in made.iterdir()}
                _sign(made, provenance.provenance(version, registry, commit, files | digests), built, key)
        with progress.step(SUMS):
            (made / SUMS).write_text(sums(made))
            if key:
                (made / SIGNATURE).write_text(key.sign((made / SUMS).read_bytes()) + "\n")
        target = root / "dist"
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    signer = f"signed by the key with the SHA-256 {key.fingerprint}" if key else "not signed"
    progress.finish(f"{version} of commit {commit.id[:12]} is in {target}, {signer}")
    return target


def sums(folder: Path) -> str:
    """Checksums for `sha256sum -c`: a line for each file of a folder."""
    return "".join(f"{_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()))


@dataclass(frozen=True)
class _Built:
    """An image of the release: name, stem of its files, archive, reference by tag, bill of materials."""

    name: str
    stem: str
    image: Image
    reference: str
    document: str


def _described(sources: Path, name: str, path: Path, reference: str, commit: Commit) -> _Built:
    """Write the bill of materials of an image beside its archive."""
    image = Image(path)
    locked = inventory.pip((sources / f"requirements/{name}.txt").read_text())
    document = materials.of_image(image, reference, commit, locked)
    stem = path.name.removesuffix(ARCHIVE)
    (path.parent / f"{stem}.cdx.json").write_text(document)
    return _Built(name, stem, image, reference, document)


def _sign(folder: Path, statement: dict[str, Any], built: list[_Built], key: Key) -> None:
    """Write the provenance of the release, and the signatures of its images."""
    envelope = key.envelope(statement)
    (folder / PROVENANCE).write_text(envelope)
    for each in built:
        about = provenance.bill_of_materials(each.document, each.reference, each.image.digest.removeprefix("sha256:"))
        envelopes = [(provenance.PROVENANCE, envelope), (provenance.BILL_OF_MATERIALS, key.envelope(about))]
        signed = oci.signatures(each.image, each.reference, key, envelopes)
        (folder / f"{each.stem}.signatures.tar").write_bytes(signed)


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
