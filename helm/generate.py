"""Generates the chart's README and the Kustomize bases. Run it after a change of the chart.

    python helm/generate.py

The comment directly above a value of values.yaml is its only description.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HELM = Path(__file__).parent
CHART = HELM / "eventconsumer"
KUSTOMIZE = HELM.parent / "kustomize"
SCOPES = {"base": "Namespaced", "base-cluster": "Cluster"}
NAMESPACE = "eventconsumer-system"
# The served namespace, and the folder of its Roles, service accounts and record: Kustomize sets one namespace in each
# folder.
SERVED_NAMESPACE, SERVED = "event-consumers", "served"
# The folder of the CRD, from a base. Kustomize reads no file outside of a base, but other bases.
CRDS = "../../crds"
IMAGES = ("operator", "processor", "spark")
# A placeholder that no resolver finds (RFC 2606): each overlay names its own registry.
REGISTRY = "registry.invalid"
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]\w*):")


class ValuesError(Exception):
    """values.yaml has a value without a description."""


def descriptions(text: str) -> Iterator[tuple[str, str]]:
    """Dotted path and description of each described value of a values.yaml.

    Raises:
        ValuesError: A value, or the object it is in, has no comment above it.
    """
    comment: list[str] = []
    path: list[str] = []
    described: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
            continue
        if found := _KEY.match(line):
            path[len(found["indent"]) // 2 :] = [found["key"]]
            name = ".".join(path)
            if comment:
                described.append(name)
                yield name, " ".join(comment)
            elif not stripped.endswith(":") and not any(name.startswith(f"{above}.") for above in described):
                raise ValuesError(f"{name} has no comment above it")
        comment = []


def value_at(values: dict[str, Any], path: str) -> Any:
    """The value at a dotted path."""
    node: Any = values
    for part in path.split("."):
        node = node[part]
    return node


def readme() -> str:
    """The chart's README."""
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    rows = [
        f"| `{path}` | `{json.dumps(value_at(values, path))}` | {description.replace('|', chr(92) + '|')} |"
        for path, description in descriptions(text)
    ]
    head = (HELM / "README.head.md").read_text()
    return head + "\n## Values\n\n| value | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def bases(helm: Path | str) -> dict[str, str]:
    """Files of the Kustomize bases, by path below `kustomize`."""
    files: dict[str, str] = {}
    for folder, scope in SCOPES.items():
        groups: dict[str, dict[str, list[dict[str, Any]]]] = {folder: {"operator.yaml": []}}
        for item in documents(helm, scope):
            if SERVED_NAMESPACE in {item["metadata"].get("namespace"), item["metadata"]["name"].rpartition(":")[2]}:
                groups.setdefault(SERVED, {}).setdefault("namespace.yaml", []).append(item)
            else:
                groups[folder]["operator.yaml"].append(item)
        for place, content in groups.items():
            for name, items in content.items():
                files[f"{place}/{name}"] = yaml.safe_dump_all(items, sort_keys=False, width=120)
            files[f"{place}/kustomization.yaml"] = yaml.safe_dump(
                {
                    "apiVersion": "kustomize.config.k8s.io/v1beta1",
                    "kind": "Kustomization",
                    "namespace": SERVED_NAMESPACE if place == SERVED else NAMESPACE,
                    "resources": list(content) if place == SERVED else [CRDS, *content],
                },
                sort_keys=False,
            )
    return {path: f"# Made from the chart by helm/generate.py.\n{text}" for path, text in files.items()}


def documents(helm: Path | str, scope: str) -> list[dict[str, Any]]:
    """Objects of the chart with its defaults and placeholders for images, without Helm's own labels.

    Args:
        helm: The helm program.
        scope: Of the chart: Namespaced or Cluster.
    """
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    # No generated key, which would be committed to Git. No admission policy: it repeats the settings, which overlays
    # change in the operator's arguments only.
    values = {"crds.enabled": "false", "fleetKey.create": "false", "admissionPolicy.enabled": "false", "scope": scope}
    values |= {f"image.{name}": f"{REGISTRY}/eventconsumer/{name}:{version}" for name in IMAGES}
    if scope == "Namespaced":
        values["watchNamespaces"] = f"{{{SERVED_NAMESPACE}}}"
    given = ",".join(f"{name}={value}" for name, value in values.items())
    rendered = subprocess.run(
        [
            helm,
            "template",
            "eventconsumer",
            CHART,
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.35.0",
            "--set",
            given,
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [_without_helm(document) for document in yaml.safe_load_all(rendered) if document]


def _without_helm(document: dict[str, Any]) -> dict[str, Any]:
    labels = document["metadata"]["labels"]
    for name in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
        labels.pop(name, None)
    return document


def find_helm() -> Path | str:
    """helm on the PATH, or the one that the local cluster built.

    Raises:
        FileNotFoundError: Neither exists.
    """
    if found := shutil.which("helm"):
        return found
    built = sorted(
        (Path.home() / ".cache/eventconsumer/bin").glob("helm-*/helm"), key=lambda path: path.stat().st_mtime
    )
    if not built:
        raise FileNotFoundError("helm: install it, or run `python -m local_cluster tools`")
    return built[-1]


def main() -> None:
    """Write all files."""
    (CHART / "README.md").write_text(readme())
    for path, text in bases(find_helm()).items():
        (KUSTOMIZE / path).parent.mkdir(parents=True, exist_ok=True)
        (KUSTOMIZE / path).write_text(text)


if __name__ == "__main__":
    main()
