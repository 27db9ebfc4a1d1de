"""Images as buildah makes them: the same files give the same bytes, whenever and wherever they are built."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from eventconsumer_release.build import image_digest
from local_cluster.images.buildah import Buildah
from local_cluster.images.context import EPOCH

REFERENCE = "localhost/eventconsumer/tiny:1"
NAME = "registry.example.com/team/tiny:1.0"


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """Two builds of the same files, in stores of their own, of contexts that were copied at different times."""
    made = []
    for number, time in enumerate((1_000_000_000, 1_700_000_000)):
        folder = tmp_path / str(number)
        (folder / "context/app").mkdir(parents=True)
        (folder / "context/Dockerfile").write_text("FROM scratch\nCOPY app /app\nENV WHAT=tiny\n")
        for name in ("app/b.py", "app/a.py"):
            (folder / "context" / name).write_text(f"{name}\n")
        for path in [folder / "context/app", *(folder / "context/app").iterdir()]:
            os.utime(path, (time, time))
        buildah = Buildah(folder / "storage", "vfs")
        try:
            buildah.build(folder / "context/Dockerfile", folder / "context", REFERENCE, {}, folder / "log")
            made.append(folder / "tiny.oci.tar")
            buildah.save(REFERENCE, NAME, made[-1])
        finally:
            buildah.recover()
    return made


def test_two_builds_of_the_same_files_are_the_same_archive(archives: list[Path]) -> None:
    first, second = (path.read_bytes() for path in archives)
    assert first == second


def test_an_archive_names_its_image_and_holds_its_files(archives: list[Path]) -> None:
    with tarfile.open(archives[0]) as archive:
        names = archive.getnames()
        assert {entry.mtime for entry in archive} == {EPOCH}

        def read(name: str) -> bytes:
            found = archive.extractfile(name)
            assert found is not None
            return found.read()

        (listed,) = json.loads(read("index.json"))["manifests"]
        assert listed["digest"] == image_digest(archives[0])
        assert listed["annotations"]["org.opencontainers.image.ref.name"] == NAME
        manifest = json.loads(read(f"blobs/{listed['digest'].replace(':', '/')}"))
        layers = [f"blobs/{layer['digest'].replace(':', '/')}" for layer in manifest["layers"]]
        assert "oci-layout" in names and set(layers) <= set(names)
        held = set()
        for layer in layers:
            with archive.extractfile(layer) as file, tarfile.open(fileobj=file) as tar:  # type: ignore[union-attr]
                held |= {entry.name for entry in tar if entry.isfile()}
                assert {entry.mtime for entry in tar} == {EPOCH}
        assert held == {"app/a.py", "app/b.py"}
