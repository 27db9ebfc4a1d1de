"""Manifests of a release: the chart's package and install.yaml, with the release's image references."""

from pathlib import Path

from eventconsumer_release import archive
from eventconsumer_release.versions import IMAGES, reference

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


def with_images(text: str, version: str, registry: str) -> str:
    """A manifest whose images come from a registry; unchanged without a registry."""
    for image in IMAGES:
        text = text.replace(reference(image, version), reference(image, version, registry))
    return text


def chart_package(root: Path, version: str, registry: str, time: int) -> bytes:
    """The chart with the name and layout of `helm package`, but with the commit's time.

    Args:
        root: The sources.
        version: Version of the chart and of the images.
        registry: Registry of the images.
        time: Time of the commit, seconds since 1970.
    """
    files, runnable = archive.read(root / CHART, "eventconsumer")
    values = "eventconsumer/values.yaml"
    files[values] = with_images(files[values].decode(), version, registry).encode()
    return archive.packed(files, runnable, time)


def install(root: Path, version: str, registry: str) -> str:
    """install.yaml: a namespace and the Kustomize base, in one file.

    Args:
        root: The sources.
        version: Of the images.
        registry: Their registry.
    """
    parts = [_HEAD.format(version=version)]
    parts += [(root / "kustomize/base" / name).read_text() for name in ("crd.yaml", "operator.yaml")]
    return with_images("---\n".join(parts), version, registry)
