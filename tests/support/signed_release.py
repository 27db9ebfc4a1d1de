"""A signed release with small images, in a process: `python -m tests.support.signed_release ROOT VERSION KEY`."""

import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from eventconsumer_release import build
from eventconsumer_release.signing import read_key
from local_cluster.images.buildah import Buildah
from local_cluster.progress import Progress

REGISTRY = "registry.example.com/team"
_NAME = "localhost/eventconsumer/small:1"
_STATUS = """\
Package: libssl3
Status: install ok installed
Maintainer: Debian OpenSSL Team <pkg-openssl-devel@example.org>
Architecture: amd64
Source: openssl
Version: 3.0.19-1~deb12u2

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


def jar(group: str, artifact: str, version: str) -> bytes:
    """A jar with its Maven coordinates, and with those of another one inside."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for owner, name, number in (("shaded", "inside", "9"), (group, artifact, version)):
            text = f"#comment\ngroupId={owner}\nartifactId={name}\nversion={number}\n"
            archive.writestr(zipfile.ZipInfo(f"META-INF/maven/{owner}/{name}/pom.properties"), text)
    return packed.getvalue()


def root_file_system(pyyaml: str) -> dict[str, bytes]:
    """Files of a small image with a package of each kind."""
    site = "opt/venv/lib/python3.11/site-packages"
    metadata = f"Metadata-Version: 2.1\nName: PyYAML\nVersion: {pyyaml}\n"
    return {
        "usr/lib/os-release": b'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status": _STATUS.encode(),
        f"{site}/PyYAML-{pyyaml}.dist-info/METADATA": metadata.encode(),
        f"{site}/pyspark/jars/hadoop-azure-3.4.1.jar": jar("org.apache.hadoop", "hadoop-azure", "3.4.1"),
        "app/eventconsumer_decoder/libeventconsumer_decoder.so": b"\x7fELF",
    }


class SmallImages:
    """Builds one small image by buildah, and saves it under every name."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Use a folder for buildah's storage."""
        self._folder = folder
        self._files = files
        self._buildah = Buildah(folder / "storage", "vfs")

    def steps(self) -> int:
        """No step of its own."""
        return 0

    def build(self, _: Progress) -> None:
        """Build the image."""
        context = self._folder / "context"
        for name, content in self._files.items():
            path = context / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o644)
        for path in context.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        (context / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
        self._buildah.build(context / "Dockerfile", context, _NAME, {}, self._folder / "log")

    def save(self, targets: Mapping[str, tuple[Path, str]], progress: Progress) -> None:
        """Write the image to archives."""
        for path, reference in targets.values():
            with progress.step(f"writing {path.name}"):
                self._buildah.save(_NAME, reference, path)
        self._buildah.recover()


def locked_version(root: Path, image: str, package: str) -> str:
    """The version of a package in the lock file of an image."""
    lines = (root / f"requirements/{image}.txt").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith(f"{package}==")]
    return found.removeprefix(f"{package}==").split()[0]


def main(root: Path, version: str, key: Path) -> None:
    """Build a signed release of the clone `root`."""
    with tempfile.TemporaryDirectory() as folder:
        images = SmallImages(Path(folder), root_file_system(locked_version(root, "operator", "pyyaml")))
        build.release(root, version, registry=REGISTRY, images=images, key=read_key(key, None))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
