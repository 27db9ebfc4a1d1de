"""Images as OCI archives: reading one, and the archive of an image's signatures.

Source: github.com/opencontainers/image-spec, image-layout.md, manifest.md and layer.md.
"""

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from eventconsumer_release.signing import Key
from local_cluster.images.buildah import reproducible

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class Image:
    """The only image of an OCI archive."""

    def __init__(self, path: Path) -> None:
        """Read the index of an archive."""
        self._path = path
        with tarfile.open(path) as archive:
            (self.descriptor,) = json.loads(_member(archive, "index.json"))["manifests"]
            self._manifest = json.loads(_member(archive, _blob(self.digest)))

    @property
    def digest(self) -> str:
        """Digest of the manifest, `sha256:` and 64 hex digits."""
        digest: str = self.descriptor["digest"]
        return digest

    def files(self, wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """Regular files of the root file system.

        Args:
            wanted: Whether a path, without a leading slash, is read.

        Returns:
            Content by path, sorted.
        """
        found: dict[str, bytes] = {}
        with tarfile.open(self._path) as archive:
            for layer in self._manifest["layers"]:
                with tarfile.open(fileobj=archive.extractfile(_blob(layer["digest"]))) as tar:
                    found = _above(found, tar, wanted)
        return dict(sorted(found.items()))


def signatures(image: Image, reference: str, key: Key, envelopes: Sequence[tuple[str, str]]) -> bytes:
    """An archive to unpack over the image's own: then the folder is one that `cosign save` writes.

    `cosign verify --local-image` verifies this folder, and `cosign load` pushes it with its signatures. Sources:
    github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md; for the annotation `kind`, pkg/oci/layout.

    Args:
        image: The image.
        reference: Its name in the signature.
        key: Signs its digest.
        envelopes: DSSE envelopes about the image, each with its predicate type.
    """
    payload = json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": reference},
                "image": {"docker-manifest-digest": image.digest},
                "type": "cosign container image signature",
            },
            "optional": None,
        }
    ).encode()
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    signed = {"dev.cosignproject.cosign/signature": key.sign(payload)}
    layers = [(payload, "application/vnd.dev.cosign.simplesigning.v1+json", signed)]
    attested = [
        (
            envelope.encode(),
            "application/vnd.dsse.envelope.v1+json",
            {"dev.cosignproject.cosign/signature": "", "predicateType": kind},
        )
        for kind, envelope in envelopes
    ]
    kinds = [{**image.descriptor, "annotations": {**image.descriptor.get("annotations", {}), **_kind("image")}}]
    kinds += [
        {**_manifest(files, each), "annotations": _kind(kind)} for kind, each in (("sigs", layers), ("atts", attested))
    ]
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": kinds}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            tar.addfile(reproducible(entry), io.BytesIO(files[name]))
    return packed.getvalue()


def _kind(name: str) -> dict[str, str]:
    return {"kind": f"dev.cosignproject.cosign/{name}"}


def _manifest(files: dict[str, bytes], layers: Sequence[tuple[bytes, str, dict[str, str]]]) -> dict[str, Any]:
    """Add a manifest and its blobs to files; its descriptor."""
    described = [_added(files, content, kind) | {"annotations": notes} for content, kind, notes in layers]
    rootfs = {"type": "layers", "diff_ids": [each["digest"] for each in described]}
    config = json.dumps({"architecture": "", "os": "", "config": {}, "rootfs": rootfs}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _added(files, config, _CONFIG),
        "layers": described,
    }
    return _added(files, json.dumps(manifest).encode(), MANIFEST)


def _added(files: dict[str, bytes], content: bytes, kind: str) -> dict[str, Any]:
    digest = f"sha256:{sha256(content).hexdigest()}"
    files[_blob(digest)] = content
    return {"mediaType": kind, "size": len(content), "digest": digest}


def _above(below: dict[str, bytes], layer: tarfile.TarFile, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Files after one more layer; its whiteouts hide files of lower layers only."""
    gone: set[PurePosixPath] = set()
    emptied: set[PurePosixPath] = set()
    own: dict[str, bytes] = {}
    for entry in layer:
        path = PurePosixPath("/", entry.name).relative_to("/")
        if path.name == _OPAQUE:
            emptied.add(path.parent)
        elif path.name.startswith(_WHITEOUT):
            gone.add(path.with_name(path.name.removeprefix(_WHITEOUT)))
        elif not entry.isdir():
            gone.add(path)
            if (entry.isfile() or entry.islnk()) and wanted(str(path)):
                file = layer.extractfile(entry)
                assert file is not None  # a file or a hard link
                own[str(path)] = file.read()
    removed = gone | emptied
    kept = {
        name: content
        for name, content in below.items()
        if PurePosixPath(name) not in gone and removed.isdisjoint(PurePosixPath(name).parents)
    }
    return kept | own


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
