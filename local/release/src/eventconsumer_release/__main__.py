"""`python -m eventconsumer_release VERSION`, for `make release`."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.terminal import guarded
from eventconsumer_release import build
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.signing import PASSWORD_VARIABLE, Key, read_key
from eventconsumer_release.versions import IMAGES
from local_cluster.errors import ClusterError
from local_cluster.images.builder import Builder
from local_cluster.layout import REPOSITORY, Layout

_console = Console(stderr=True, soft_wrap=True)


def release(
    version: Annotated[str, typer.Argument(help="Version of the release, such as 1.2.0.")],
    *,
    registry: Annotated[
        str, typer.Option(envvar="REGISTRY", help="Registry of its images, such as registry.example.com/team.")
    ] = "",
    images: Annotated[bool, typer.Option(envvar="IMAGES", help="Also build the images; IMAGES=no omits them.")] = True,
    signing_key: Annotated[
        Path | None, typer.Option(envvar="SIGNING_KEY", help="Private key of the signatures: ECDSA P-256, PEM.")
    ] = None,
    unsigned: Annotated[
        bool, typer.Option(envvar="UNSIGNED", help="Do not sign; UNSIGNED=yes is for trials on your own machines.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The repository.")] = REPOSITORY,
) -> None:
    """Build the files of a release into dist/."""
    try:
        key = _key(root, signing_key, unsigned)
        builder = _builder(root) if images else None
        build.release(root, version, registry=registry, images=builder, key=key)
    except (ReleaseError, ClusterError) as error:
        _console.print(Text.assemble(("error:", "red"), f" {error}"))
        raise SystemExit(1) from None


def _key(root: Path, path: Path | None, unsigned: bool) -> Key | None:
    if path and unsigned:
        raise ReleaseError("SIGNING_KEY and UNSIGNED=yes exclude each other: unset one of them.")
    if not path and not unsigned:
        raise ReleaseError(
            "A release is signed: set SIGNING_KEY=<file> (docs/how-to/release.md describes the key). For a trial on "
            "your own machines: UNSIGNED=yes."
        )
    if path and path.resolve().is_relative_to(root.resolve()):
        raise ReleaseError(f"The signing key {path} is in the repository, where it could be committed: move it away.")
    return read_key(path, os.environ.get(PASSWORD_VARIABLE)) if path else None


def _builder(root: Path) -> Builder:
    if root.resolve() != REPOSITORY:
        raise ReleaseError(f"Images are built of {REPOSITORY} only: run `make release` there, or without images.")
    return Builder(Layout.from_environment(), list(IMAGES), fresh=True)


@guarded()
def main() -> None:
    """Run the command."""
    typer.run(release)


if __name__ == "__main__":
    main()
