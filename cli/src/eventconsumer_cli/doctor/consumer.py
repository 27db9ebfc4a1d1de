"""Checks of one consumer: its conditions, Secrets, pods and what its handler and its Spark program get, and from inside
a pod: hub, storage, clock, dead letters, the endpoint of notices and the schema registry.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from eventconsumer_api.commands import CHECK, PrintFormat
from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.programs import Reference, references
from eventconsumer_api.spec.spark import SparkProgram
from eventconsumer_api.v1alpha1 import Processing
from eventconsumer_cli.doctor import registry
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.doctor.inside import checks
from eventconsumer_cli.errors import CliError, Forbidden, NotFound
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import CONFIG_MAP, POD, SECRET, name_of, namespace_of
from eventconsumer_cli.kube.toolbox import Toolbox
from eventconsumer_cli.kube.toolpod import why_waiting

_PARTS = ("eventHub", "checkpointStore", "sink")
_PULL = ("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")


def look(cluster: Cluster, toolbox: Toolbox | None, consumer: Manifest) -> Iterator[Finding]:
    """Check one consumer.

    Args:
        cluster: The cluster.
        toolbox: Runs checks inside the cluster; None: skip them.
        consumer: The EventConsumer.
    """
    about = f"{namespace_of(consumer)}/{name_of(consumer)}"
    findings = [
        *judge_status(consumer),
        *secrets(cluster, consumer),
        *inputs(cluster, consumer),
        *pods(cluster, consumer),
    ]
    if toolbox is not None:
        findings += inside(toolbox, consumer)
    findings += registry.look(cluster, toolbox, consumer)
    yield from (replace(each, consumer=about) for each in findings)


def judge_status(consumer: Manifest) -> Iterator[Finding]:
    """Findings from the conditions."""
    status = consumer.get("status", {})
    seen, wanted = status.get("observedGeneration", 0), consumer["metadata"].get("generation", 0)
    if seen < wanted:
        yield Finding(
            "status",
            Level.WARNING,
            "the operator has not reconciled the last change" if seen else "the operator has not reconciled it yet",
            "wait some seconds; if this persists, see the finding `operator`",
        )
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    for kind, level in (
        ("Stalled", Level.BROKEN),
        ("DataGap", Level.WARNING),
        ("BodiesUnreadable", Level.WARNING),
    ):
        found = conditions.get(kind, {})
        if found.get("status") == "True":
            yield Finding("status", level, f"{kind} ({found['reason']}): {found['message']}", "see the message")
    kept = status.get("retention") or {}
    if excess := kept.get("excessBytes"):
        why = f", because the oldest one is {kept['held']}" if kept.get("held") else ""
        yield Finding(
            "retention",
            Level.WARNING,
            f"the kept files are {excess:,} bytes above spec.sink.retention.bytes{why}",
            "correct Spark, the table or the endpoint of notices if one is behind; else raise bytes: files that are "
            "not processed are never removed",
        )
    ready = conditions.get("Ready", {})
    if ready.get("status") == "True":
        yield Finding("status", Level.OK, f"Ready: {ready.get('message', '')}")
    elif ready and conditions.get("Stalled", {}).get("status") != "True":
        quiet = ready.get("reason") in {"Suspended", "ScaledToZero"}
        yield Finding("status", Level.OK if quiet else Level.WARNING, f"{ready['reason']}: {ready.get('message', '')}")


def secrets(cluster: Cluster, consumer: Manifest) -> Iterator[Finding]:
    """Whether the referenced Secrets and keys exist; the values are not read."""
    namespace = namespace_of(consumer)
    named: dict[tuple[str, str], list[str]] = {}
    for part in _PARTS:
        ref = consumer["spec"][part]["authentication"].get("connectionStringSecretRef")
        if ref:
            named.setdefault((ref["name"], ref["key"]), []).append(f"spec.{part}")
    for (name, key), fields in named.items():
        used = f"Secret {name}, key {key}, for {' and '.join(fields)}"
        remedy = f"kubectl -n {namespace} create secret generic {name} --from-literal={key}=<connection string>"
        try:
            data = cluster.get(SECRET, namespace, name).get("data") or {}
        except NotFound:
            yield Finding("secret", Level.BROKEN, f"{used}: the Secret does not exist", remedy)
        except Forbidden:
            yield Finding(
                "secret", Level.UNKNOWN, f"{used}: you have no permission to read it; a check in a pod follows"
            )
        else:
            if data.get(key):
                yield Finding("secret", Level.OK, used)
            else:
                has = ", ".join(sorted(data)) or "none"
                why = f"{used}: the key does not exist or is empty; the Secret has {has}"
                yield Finding(
                    "secret", Level.BROKEN, why, f"put the connection string under key {key} of Secret {name}"
                )


def inputs(cluster: Cluster, consumer: Manifest) -> Iterator[Finding]:
    """Whether the ConfigMaps and Secrets of a handler or Spark program, and their keys, exist; values are not read."""
    spec = consumer["spec"]
    spark = spec.get("spark", {"enabled": False})
    programs: list[tuple[str, type[Processing | SparkProgram], Any]] = [
        ("spec.processing", Processing, spec.get("processing"))
    ]
    if spark.get("enabled", True):
        programs.append(("spec.spark.application", SparkProgram, spark.get("application")))
    for path, model, written in programs:
        try:
            found = model.model_validate(written or {})
        except ValidationError:
            yield Finding("inputs", Level.UNKNOWN, f"{path} has fields that this plugin does not know")
            continue
        for each in references(found):
            yield _input(cluster, namespace_of(consumer), f"{path}.{each.field}", each)


def _input(cluster: Cluster, namespace: str, field: str, each: Reference) -> Finding:
    """Whether one ConfigMap or Secret exists with its keys."""
    used = f"{each.kind} {each.name} for {field}"
    try:
        found = cluster.get(SECRET if each.kind == "Secret" else CONFIG_MAP, namespace, each.name)
    except Forbidden:
        return Finding("inputs", Level.UNKNOWN, f"{used}: you have no permission to read it")
    except NotFound:
        created = "secret generic" if each.kind == "Secret" else "configmap"
        values = " ".join(f"--from-literal={key}=<value>" for key in each.keys or ("<key>",))
        why, remedy = "it does not exist", f"kubectl -n {namespace} create {created} {each.name} {values}"
    else:
        has = (found.get("data") or {}) | (found.get("binaryData") or {})
        missing = ", ".join(key for key in each.keys if key not in has)
        why = f"it has no key {missing}, but {', '.join(sorted(has)) or 'none'}" if missing else ""
        remedy = f"put {missing} into it, or correct {field}"
    if not why:
        return Finding("inputs", Level.OK, used)
    if each.optional:
        return Finding("inputs", Level.OK, f"{used}: {why}; it is optional")
    return Finding("inputs", Level.BROKEN, f"{used}: {why}", remedy)


def pods(cluster: Cluster, consumer: Manifest) -> Iterator[Finding]:
    """Whether its pods could start, for example whether their images exist."""
    namespace, name = namespace_of(consumer), name_of(consumer)
    try:
        found = cluster.list(POD, namespace, {labels.LABEL_NAME: "eventconsumer", labels.LABEL_CONSUMER: name})
    except Forbidden as error:
        yield Finding("pods", Level.UNKNOWN, f"you have no permission to read them: {error}")
        return
    tools = (labels.COMPONENT_TOOL, labels.COMPONENT_SPARK_TOOL)
    found = [each for each in found if each["metadata"]["labels"].get(labels.LABEL_COMPONENT) not in tools]
    waiting = {name_of(each): why for each in found if (why := why_waiting(each)) and _is_pending(each)}
    for pod, why in waiting.items():
        is_image = why.startswith(_PULL)
        yield Finding(
            "images" if is_image else "pods",
            Level.BROKEN,
            f"pod {pod} does not start: {why}",
            "correct the image's name, or the registry's credentials (imagePullSecrets)"
            if is_image
            else f"kubectl -n {namespace} describe pod {pod}",
        )
    if not waiting:
        images = sorted({each["image"] for pod in found for each in pod["spec"]["containers"]})
        ran = f"{len(found)} pods of {', '.join(images)}" if found else "none runs"
        yield Finding("pods", Level.OK, ran)


def _is_pending(pod: Manifest) -> bool:
    status = pod.get("status", {})
    waiting = any("waiting" in each.get("state", {}) for each in status.get("containerStatuses", []))
    return waiting or status.get("phase") == "Pending"


def inside(toolbox: Toolbox, consumer: Manifest) -> list[Finding]:
    """Findings from a pod with the consumer's configuration and credentials."""
    try:
        with toolbox.at(consumer) as tool:
            return checks(tool, CHECK.arguments(output=PrintFormat.JSON))
    except CliError as error:
        return [Finding("inside", Level.WARNING, f"no pod could run the checks: {error}", error.remedy)]
