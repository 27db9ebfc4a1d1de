"""`python -m eventconsumer_release VERSION`, for `make release`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from eventconsumer_api.console import Console
from eventconsumer_api.terminal import guarded
from eventconsumer_release import build
from eventconsumer_release.errors import ReleaseError
from local_cluster.errors import ClusterError
from local_cluster.layout import REPOSITORY

_console = Console(stderr=True, soft_wrap=True)


def release(
    version: Annotated[str, typer.Argument(help="Version of the release, such as 1.2.0.")],
    registry: Annotated[
        str, typer.Option(envvar="REGISTRY", help="Registry of its images, such as registry.example.com/team.")
    ] = "",
    images: Annotated[bool, typer.Option(envvar="IMAGES", help="Also build the images; IMAGES=no omits them.")] = True,
    root: Annotated[Path, typer.Option(help="The repository.")] = REPOSITORY,
) -> None:
    """Build the files of a release into dist/."""
    try:
        build.release(root, version, registry=registry, images=images)
    except (ReleaseError, ClusterError) as error:
        _console.print(Text.assemble(("error:", "red"), f" {error}"))
        raise SystemExit(1) from None


@guarded()
def main() -> None:
    """Run the command."""
    typer.run(release)


if __name__ == "__main__":
    main()
