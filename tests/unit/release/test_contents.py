"""The files and packages of an image, from the layers of its archive."""

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from eventconsumer_release import contents
from eventconsumer_release.contents import Installed
from eventconsumer_release.oci import Image
from tests.support.signed_release import jar, root_file_system

Layer = dict[str, bytes | str | None]
"""Content by path; None is a folder, a text the target of a symbolic link."""


def tar(entries: Layer, mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return packed.getvalue()


def image(path: Path, *layers: Layer) -> Image:
    blobs: Layer = {}

    def add(content: bytes) -> dict[str, str]:
        digest = sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}"}

    manifest = add(json.dumps({"layers": [add(tar(layer)) for layer in layers]}).encode())
    blobs["index.json"] = json.dumps({"manifests": [manifest]}).encode()
    path.write_bytes(tar(blobs, "w"))
    return Image(path)


def below(**files: str) -> Layer:
    return {f"a/{name}": text.encode() for name, text in files.items()}


@pytest.mark.parametrize(
    ("above", "left"),
    [
        ({"./a/x": b"new"}, {"a/x": b"new", "a/y": b"2"}),
        ({"a/.wh.x": b""}, {"a/y": b"2"}),
        ({".wh.a": b""}, {}),
        ({"a/.wh..wh..opq": b"", "a/z": b"3"}, {"a/z": b"3"}),
        ({"a/z": b"3", "a/.wh..wh..opq": b""}, {"a/z": b"3"}),
        ({"a": None}, {"a/x": b"1", "a/y": b"2"}),
        ({"a": "elsewhere"}, {}),
        ({"a/x": "y"}, {"a/y": b"2"}),
        ({"ab/.wh.x": b"", ".wh.ab": b""}, {"a/x": b"1", "a/y": b"2"}),
    ],
)
def test_files_match_the_last_layers(tmp_path: Path, above: Layer, left: dict[str, bytes]) -> None:
    assert image(tmp_path / "tar", below(x="1", y="2"), above).files(lambda _: True) == left


def test_packages_of_every_kind_are_found(tmp_path: Path) -> None:
    files = {f"./{name}": content for name, content in root_file_system("6.0.3").items()}
    read = image(tmp_path / "tar", {**files, "usr/bin/other": b"-"}).files(contents.wanted)
    assert "usr/bin/other" not in read
    java = jar("org.apache.hadoop", "hadoop-azure", "3.4.1")
    site = "opt/venv/lib/python3.11/site-packages"
    assert set(contents.packages(read, "1.2.0")) == {
        Installed(
            "deb",
            "debian",
            "libssl3",
            "3.0.19-1~deb12u2",
            "var/lib/dpkg/status",
            (("arch", "amd64"), ("distro", "debian-12"), ("upstream", "openssl")),
            "Debian OpenSSL Team <pkg-openssl-devel@example.org>",
        ),
        Installed("pypi", "", "pyyaml", "6.0.3", f"{site}/PyYAML-6.0.3.dist-info/METADATA"),
        Installed(
            "maven",
            "org.apache.hadoop",
            "hadoop-azure",
            "3.4.1",
            f"{site}/pyspark/jars/hadoop-azure-3.4.1.jar",
            sha256=sha256(java).hexdigest(),
        ),
        Installed(
            "cargo",
            "",
            "eventconsumer-decoder",
            "1.2.0",
            "app/eventconsumer_decoder/libeventconsumer_decoder.so",
            sha256=sha256(b"\x7fELF").hexdigest(),
        ),
    }


@pytest.mark.parametrize(
    ("name", "content", "coordinates"),
    [
        (
            "netty-epoll-4.2.7.Final-linux-x86_64",
            jar("io.netty", "netty-epoll", "4.2.7.Final"),
            "maven io.netty netty-epoll 4.2.7.Final",
        ),
        ("chill_2.13-0.10.0", jar("g", "other", "1"), "generic  chill_2.13 0.10.0"),
        ("renamed", jar("g", "a", "1"), "generic  renamed "),
    ],
)
def test_a_jar_is_a_component_by_its_coordinates_or_else_by_its_name(
    name: str, content: bytes, coordinates: str
) -> None:
    (found,) = contents.packages({f"x/{name}.jar": content}, "1.2.0")
    assert f"{found.kind} {found.namespace} {found.name} {found.version}" == coordinates
    assert found.sha256 == sha256(content).hexdigest()
