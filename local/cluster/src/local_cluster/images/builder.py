"""Build missing images, and load them into the cluster."""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from local_cluster import host, packages
from local_cluster.errors import CommandFailed, Conflict, NotBuilt
from local_cluster.images import base, catalog
from local_cluster.images.buildah import Buildah
from local_cluster.images.catalog import LOCAL_REGISTRY, Image
from local_cluster.layout import REPOSITORY, Layout
from local_cluster.lock import exclusive
from local_cluster.mirror import debian_mirror
from local_cluster.progress import Progress
from local_cluster.runtime import Containerd

FIXED_STEPS = 2


class Builder:
    """The images of one repository, in buildah's storage and in containerd's."""

    def __init__(
        self, layout: Layout, names: list[str], registry: str = LOCAL_REGISTRY, *, fresh: bool = False
    ) -> None:
        """Choose images.

        Args:
            layout: Gives the stores.
            names: Some of `catalog.DOCKERFILES` and `catalog.EXTRA`.
            registry: Prefix of the references.
            fresh: Make the base image and all images again, with the Debian packages that the mirror has now; a cluster
                keeps those that it has.
        """
        self._layout = layout
        self._registry = registry
        self._scratch = layout.state / "scratch"
        self._names = names
        self._fresh = fresh

    @property
    def images(self) -> list[Image]:
        """The chosen images in the current version of the sources."""
        return [self._describe(name) for name in self._names]

    def steps(self) -> int:
        """The number of steps of `build`."""
        return FIXED_STEPS + len(self._names)

    def build(self, progress: Progress) -> None:
        """Build the missing images, and load them into the cluster if it runs.

        Raises:
            ClusterError: A step failed; the message contains its log.
        """
        host.check_rights()
        with exclusive(self._layout.build_lock):
            with progress.step("checking Debian packages"):
                if installed := packages.install(packages.BUILD):
                    progress.note(f"installed {', '.join(installed)}")
            buildah = self._recovered()
            present = set() if self._fresh else buildah.references()
            self._ensure_base(buildah, present, progress)
            loaded = None if self._fresh else self._in_containerd()
            images = []
            for image in self.images:
                if missing := [str(program) for program in image.programs if not program.exists()]:
                    raise NotBuilt(
                        f"{image.name} needs {', '.join(missing)}. Run `python -m local_cluster tools --{image.name}`."
                    )
            for name in self._names:
                images.append(self._describe(name))  # now, for building the others took minutes
                self._ensure(images[-1], buildah, present, loaded, progress)
            self._forget_outdated(images, buildah, loaded)

    def load(self, progress: Progress) -> None:
        """Load the built images into the cluster's containerd, or push them to the given registry.

        Raises:
            NotBuilt: An image is missing.
            Conflict: No local cluster runs, and no registry was given.
        """
        host.check_rights()
        with exclusive(self._layout.build_lock):
            buildah = self._recovered()
            present, loaded = buildah.references(), self._in_containerd()
            pushing = self._registry != LOCAL_REGISTRY
            if loaded is None and not pushing:
                raise Conflict(
                    "No local cluster runs: start it with `python -m local_cluster up`, or name the registry that your "
                    "cluster pulls from: REGISTRY=registry.example.com/team"
                )
            images = self.images
            at_hand = present if pushing else present | (loaded or set())
            if missing := [image.name for image in images if image.reference not in at_hand]:
                raise NotBuilt(f"Not built in this version: {', '.join(missing)}. Run `python -m local_cluster build`.")
            if pushing:
                for image in images:
                    with progress.step(f"pushing {image.reference}"):
                        buildah.push(image.reference)
                return
            for image in images:
                self._ensure(image, buildah, present, loaded, progress)
            self._forget_outdated(images, buildah, loaded)

    def save(self, targets: Mapping[str, tuple[Path, str]], progress: Progress) -> None:
        """Write built images to OCI archives.

        Args:
            targets: File, and the reference it gives the image, by the image's name.
            progress: Shows a step an image.
        """
        host.check_rights()
        with exclusive(self._layout.build_lock):
            buildah = self._recovered()
            for name, (file, reference) in targets.items():
                with progress.step(f"writing {file.name}"):
                    buildah.save(self._describe(name).reference, reference, file)

    def _ensure_base(self, buildah: Buildah, present: set[str], progress: Progress) -> None:
        if base.reference() in present:
            with progress.step("base image exists"):
                return
        log = self._fresh_log("base")
        with progress.step("making the base image", log):
            base.make(buildah, debian_mirror(), self._scratch, log)

    def _ensure(
        self, image: Image, buildah: Buildah, present: set[str], loaded: set[str] | None, progress: Progress
    ) -> None:
        extended = image.name in {base for _, base in catalog.EXTENDS.values()}  # then buildah must have it, too
        if loaded is not None and image.reference in loaded and (image.reference in present or not extended):
            with progress.step(f"{image.name} is up to date"):
                return
        if image.reference in present and loaded is None:
            with progress.step(f"{image.name} is built"):
                return
        if image.reference not in present:
            log = self._fresh_log(image.name)
            with progress.step(f"building {image.name}", log):
                catalog.build(buildah, image, self._scratch, log)
                present.add(image.reference)
                self._load(image, buildah, loaded)
        else:
            with progress.step(f"loading {image.name} into the cluster"):
                self._load(image, buildah, loaded)

    def _load(self, image: Image, buildah: Buildah, loaded: set[str] | None) -> None:
        if loaded is None:
            return  # no cluster runs; `build` loads it once one does
        self._containerd().load_output(buildah.export(image.reference))
        loaded.add(image.reference)

    def _describe(self, name: str) -> Image:
        return catalog.describe(REPOSITORY, name, self._registry)

    def _forget_outdated(self, images: list[Image], buildah: Buildah, loaded: set[str] | None) -> None:
        """Keep only the current versions; images of running pods stay until the pods end, by `keep`."""
        stale = catalog.outdated(buildah.references(), images, keep=set())
        with contextlib.suppress(CommandFailed):  # an image that a build of another clone uses right now
            buildah.forget(stale)
        if loaded is not None:
            containerd = self._containerd()
            containerd.forget_images(catalog.outdated(loaded, images, keep=containerd.images_in_use()))

    def _in_containerd(self) -> set[str] | None:
        """References that pods can use; None if no cluster runs."""
        if not self._layout.containerd_socket.exists():
            return None  # ctr would wait 10 s for it
        with contextlib.suppress(CommandFailed):
            return self._containerd().images()
        return None

    def _recovered(self) -> Buildah:
        """The storage, without remains of killed builds."""
        driver = "overlay" if host.overlay_works(self._layout.state) else "vfs"
        buildah = Buildah(self._layout.build_storage, driver)
        buildah.recover()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return buildah

    def _containerd(self) -> Containerd:
        return Containerd(self._layout.containerd_socket)

    def _fresh_log(self, name: str) -> Path:
        log = self._layout.build_logs / f"image-{name}.log"
        log.unlink(missing_ok=True)
        return log
