"""Manifests of a release: the chart's package and install.yaml, with the release's image references."""

import re
from collections.abc import Mapping
from pathlib import Path

from eventconsumer_release import archive
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.versions import reference

NAMESPACE = "eventconsumer-system"
CHART = "helm/eventconsumer"
_HEAD = f"""\
# EventConsumer {{version}}: the CRD, and the operator serving the namespace {NAMESPACE}. Apply it server-side:
#   kubectl apply --server-side -f install.yaml
# Other namespaces, metrics, alerts, users' roles: the chart, or the Kustomize overlays.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


def chart_package(root: Path, images: Mapping[str, str], time: int) -> bytes:
    """The chart with the name and layout of `helm package`, but with the commit's time.

    Args:
        root: The sources.
        images: Reference of each image in the release.
        time: Time of the commit, seconds since 1970.

    Raises:
        ReleaseError: values.yaml has no place for an image.
    """
    files, runnable = archive.read(root / CHART, "eventconsumer")
    values = "eventconsumer/values.yaml"
    files[values] = with_values(files[values].decode(), images).encode()
    return archive.packed(files, runnable, time)


def with_values(text: str, images: Mapping[str, str]) -> str:
    """values.yaml with other values of `image.<name>`; comments and order stay.

    Raises:
        ReleaseError: It has no such value.
    """
    head, start, rest = text.partition("\nimage:\n")
    block = re.match(r"(?:[ ]+.*\n|\n)*", rest)
    inner, tail = (rest[: block.end()], rest[block.end() :]) if block else ("", rest)
    for image, released in images.items():
        inner, count = re.subn(rf"^  {image}: .*$", f"  {image}: {released}", inner, flags=re.MULTILINE)
        if count != 1:
            raise ReleaseError(
                f"{CHART}/values.yaml has no value image.{image}: the release writes its reference there."
            )
    return head + start + inner + tail


def install(root: Path, version: str, images: Mapping[str, str]) -> str:
    """install.yaml: a namespace and the Kustomize base, in one file.

    Args:
        root: The sources.
        version: Version of the images in the sources.
        images: Reference of each image in the release.

    Raises:
        ReleaseError: The base does not name an image.
    """
    parts = [_HEAD.format(version=version)]
    parts += [(root / "kustomize/base" / name).read_text() for name in ("crd.yaml", "operator.yaml")]
    text = "---\n".join(parts)
    for image, released in images.items():
        named = reference(image, version)
        if named not in text:
            raise ReleaseError(f"kustomize/base does not name {named}, which the release replaces: run `make chart`.")
        text = text.replace(named, released)
    return text
