"""Manifests of a release: the chart's package and install.yaml, with the release's image references."""

import re
from collections.abc import Mapping
from pathlib import Path

from eventconsumer_release import archive
from eventconsumer_release.errors import ReleaseError
from eventconsumer_release.versions import IMAGES, PLACEHOLDER, reference

NAMESPACE = "eventconsumer-system"
SERVED_NAMESPACE = "event-consumers"
_MANIFESTS = ("crds/eventconsumers.yaml", "kustomize/base/operator.yaml", "kustomize/served/namespace.yaml")
CHART = "helm/eventconsumer"
_HEAD = f"""\
# EventConsumer {{version}}: the CRD, and the operator in {NAMESPACE}, which serves the namespace
# {SERVED_NAMESPACE}. Apply it server-side:
#   kubectl apply --server-side -f install.yaml
# Other namespaces, metrics, alerts, users' roles: the chart, or the Kustomize overlays.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
---
apiVersion: v1
kind: Namespace
metadata:
  name: {SERVED_NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


def chart_package(root: Path, images: Mapping[str, str], time: int) -> bytes:
    """The chart with the name and layout of `helm package`, but with the commit's time.

    Args:
        root: The sources.
        images: References of the images, by name, as defaults of the chart; empty: the chart has no default images.
        time: Time of the commit, seconds since 1970.

    Raises:
        ReleaseError: values.yaml has no place for an image.
    """
    files, runnable = archive.read(root / CHART, "eventconsumer")
    values = "eventconsumer/values.yaml"
    text = files[values].decode()
    for image, written in images.items():
        text, found = re.subn(rf'^  {image}: ""$', f'  {image}: "{written}"', text, flags=re.MULTILINE)
        if found != 1:
            raise ReleaseError(
                f'{CHART}/values.yaml has {found} lines `{image}: ""`, where the release writes its reference'
            )
    files[values] = text.encode()
    return archive.packed(files, runnable, time)


def install(root: Path, version: str, images: Mapping[str, str]) -> str:
    """install.yaml in one file: the namespaces of the operator and of EventConsumers, the CRD, and the Kustomize bases.

    Args:
        root: The sources.
        version: Of the release.
        images: References of the images, by name.
    """
    parts = [_HEAD.format(version=version)]
    parts += [(root / name).read_text() for name in _MANIFESTS]
    text = "---\n".join(parts)
    for image in IMAGES:
        text = text.replace(reference(image, version, PLACEHOLDER), images[image])
    return text
