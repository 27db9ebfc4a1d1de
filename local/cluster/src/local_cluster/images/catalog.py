"""The images of the project, and the build of each."""

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from local_cluster.errors import ClusterError, CommandFailed
from local_cluster.images import base
from local_cluster.images.buildah import Buildah, build_arguments
from local_cluster.images.context import Dockerfile, content_hash, context_files, parse_dockerfile, stage
from local_cluster.layout import Layout
from local_cluster.shell import run
from local_cluster.tools import KUBEFLOW, Tools

LOCAL_REGISTRY = "localhost"

# The images of the product and the demo. Name: Dockerfile; the quick ones first, so that a mistake shows early
DOCKERFILES = {
    "emulator": "local/emulator/Dockerfile",
    "operator": "operator/Dockerfile",
    "processor": "processor_image/Dockerfile",
    "azurite": "local/azurite/Dockerfile",
    "spark": "spark/Dockerfile",
}
# Images that are built only on request: the example handler, and images for tests.
EXTRA = {
    "handler": "processor_image/examples/handler/Dockerfile",
    "kubeflow": "local/cluster/kubeflow/Dockerfile",
}
# Images that are built on another one of the project, in a folder of their own: as users build theirs.
EXTENDS = {"handler": ("PROCESSOR_IMAGE", "processor"), "kubeflow": ("SPARK_IMAGE", "spark")}
# Programs of the Go modules that images copy, under these names.
PROGRAMS = {"kubeflow": ((KUBEFLOW, "spark-operator"),)}


@dataclass(frozen=True)
class Image:
    """One image in its current version.

    Attributes:
        name: Short name, such as `operator`.
        reference: Full name whose tag is the hash of its content.
        context: The build context.
        dockerfile: Path relative to the context.
        instructions: The instructions of the Dockerfile.
        files: Copied files, relative to the context.
        arguments: Build arguments that name the base image.
        programs: Copied programs, which are in the cache or must be built before.
    """

    name: str
    reference: str
    context: Path
    dockerfile: Path
    instructions: Dockerfile
    files: tuple[Path, ...]
    arguments: tuple[tuple[str, str], ...]
    programs: tuple[Path, ...] = ()

    @property
    def tag(self) -> str:
        """The hash of the content."""
        return self.reference.rpartition(":")[2]

    @property
    def repository(self) -> str:
        """The reference without its tag."""
        return self.reference.rpartition(":")[0]


def describe(root: Path, name: str, registry: str = LOCAL_REGISTRY, cache: Path | None = None) -> Image:
    """Compute the current version of an image.

    Args:
        root: The repository, which is the build context of all images except those in `EXTENDS`.
        name: One of `DOCKERFILES` or `EXTRA`.
        registry: Prefix of the reference.
        cache: Folder of built programs; None: the user's.

    Raises:
        ClusterError: The Dockerfile copies a missing file.
    """
    context, dockerfile = root, Path((DOCKERFILES | EXTRA)[name])
    arguments = {"BASE_IMAGE": base.reference()}
    if name in EXTENDS:
        argument, extended = EXTENDS[name]
        context, dockerfile = root / dockerfile.parent, Path(dockerfile.name)
        arguments = {argument: describe(root, extended, registry).reference}
    instructions = parse_dockerfile((context / dockerfile).read_text())
    programs = tuple(
        Tools(root / "local/cluster/tools", cache or Layout.from_environment().cache, (module,)).path(program)
        for module, program in PROGRAMS.get(name, ())
    )
    copied = {program.name for program in programs}
    files = tuple(context_files(context, (source for source in instructions.sources if source not in copied)))
    image = Image(name, "", context, dockerfile, instructions, files, tuple(arguments.items()), programs)
    return replace(image, reference=f"{registry}/eventconsumer/{name}:{_hash(image, context)}")


def build(buildah: Buildah, image: Image, scratch: Path, log: Path) -> None:
    """Build one image from a clean copy of exactly the files that its hash covers.

    Raises:
        CommandFailed: A step of the Dockerfile failed.
        ClusterError: The sources changed during the build.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    arguments = dict(image.arguments) | build_arguments(
        image.instructions.arguments, os.environ, configured_pip_index()
    )
    with tempfile.TemporaryDirectory(prefix=".context-", dir=scratch) as folder:
        context = Path(folder)
        files = {*image.files, image.dockerfile}
        stage(image.context, files, context)
        if _hash(image, context) != image.tag:
            raise ClusterError(f"The sources of {image.name} changed while they were copied. Build again.")
        for program in image.programs:
            stage(program.parent, {Path(program.name)}, context)
        buildah.build(context / image.dockerfile, context, image.reference, arguments, log)


def _hash(image: Image, context: Path) -> str:
    # The folder of a program is named after the hash of what it is built from.
    ingredients = (*dict(image.arguments).values(), *(program.parent.name for program in image.programs))
    return content_hash(context, sorted({*image.files, image.dockerfile}), *ingredients)


def outdated(references: set[str], images: list[Image], keep: set[str]) -> set[str]:
    """The references of older versions of the images.

    Args:
        references: The references in a store.
        images: The current versions.
        keep: References that stay in any case.
    """
    repositories = {image.repository for image in images}
    current = {image.reference for image in images} | keep
    return {
        reference
        for reference in references
        if reference.rpartition(":")[0] in repositories and reference not in current
    }


def configured_pip_index() -> str | None:
    """The index that pip is configured to use on this machine, if it is not the public one."""
    try:
        return run(["python3", "-m", "pip", "config", "get", "global.index-url"]).strip() or None
    except CommandFailed:
        return None
