"""containerd's store through `ctr`: the images that pods start from, and the containers of a cluster that ends."""

import contextlib
import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from local_cluster.errors import CommandFailed, LeftoverStuck
from local_cluster.shell import pipe, run

_NAMESPACE = "k8s.io"  # the one the kubelet's runtime interface uses


class Containerd:
    """One running containerd."""

    def __init__(self, socket: Path) -> None:
        """Connect to the containerd that listens here."""
        self._ctr = ["ctr", "--address", str(socket), "--namespace", _NAMESPACE]

    def images(self) -> set[str]:
        """References of all images that pods can use."""
        return set(run([*self._ctr, "images", "list", "--quiet"]).split())

    def images_in_use(self) -> set[str]:
        """References of the images of containers."""
        listed = run([*self._ctr, "containers", "list"]).splitlines()[1:]
        return {words[1] for line in listed if len(words := line.split()) > 1}

    def load(self, archive: Path) -> None:
        """Import the images of a docker archive; some seconds per 100 MB."""
        run([*self._ctr, "images", "import", archive])

    def load_output(self, command: Sequence[str | Path]) -> None:
        """Import the images of the docker archive that a command writes to its standard output."""
        pipe(command, [*self._ctr, "images", "import", "-"])

    def forget_images(self, references: set[str]) -> None:
        """Remove images and their unshared content; running containers keep theirs."""
        if references:
            run([*self._ctr, "images", "remove", "--sync", *sorted(references)])

    def discard_containers(self) -> int:
        """Kill and remove all containers, with their snapshots.

        Returns:
            Their number.

        Raises:
            LeftoverStuck: Some cannot be removed.
        """
        containers = run([*self._ctr, "containers", "list", "--quiet"]).split()
        tasks = run([*self._ctr, "tasks", "list", "--quiet"]).split()
        # With several containers, ctr continues after a failure, such as a container that has already ended.
        if tasks:
            with contextlib.suppress(CommandFailed):
                run([*self._ctr, "tasks", "delete", "--force", *tasks], timeout=60)
        if containers:
            with contextlib.suppress(CommandFailed):
                run([*self._ctr, "containers", "remove", *containers], timeout=60)
        if left := run([*self._ctr, "containers", "list", "--quiet"]).split():
            raise LeftoverStuck(f"containerd does not remove the containers {', '.join(left)}; see its log.")
        return len(containers)


def single_binary_archive(binary: bytes, reference: str, entrypoint: str) -> bytes:
    """A docker archive of an image that holds one static program and nothing else.

    Args:
        binary: The program.
        reference: Full name of the image.
        entrypoint: Path of the program in the image, such as `/pause`.

    Returns:
        The archive; the same input gives the same bytes.
    """
    layer = _tar({entrypoint.lstrip("/"): (binary, 0o755)})
    config = json.dumps(
        {
            "architecture": _architecture(binary),
            "os": "linux",
            "config": {"Entrypoint": [entrypoint], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
    return _tar({"manifest.json": (manifest, 0o644), "config.json": (config, 0o644), "layer.tar": (layer, 0o644)})


def load_single_binary(containerd: Containerd, binary: Path, reference: str) -> None:
    """Make an image of one program known to containerd."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        archive.write(single_binary_archive(binary.read_bytes(), reference, f"/{binary.name}"))
        archive.flush()
        containerd.load(Path(archive.name))


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _architecture(binary: bytes) -> str:
    """OCI's name for the machine of an ELF program."""
    machine = int.from_bytes(binary[18:20], "little")
    return {0x3E: "amd64", 0xB7: "arm64"}.get(machine, "unknown")
