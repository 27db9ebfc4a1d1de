"""Every CEL rule of the CRD on a real API server: one resource that breaks it, and the message that says what to do."""

from typing import Any

import pytest

from eventconsumer_api.resource.crdgen import custom_resource_definition
from eventconsumer_api.spec.spark_conf import ALLOWED
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.test_crd import GOOD, IDENTITY, SECRET, apply, with_value
from tests.support.fakes.kubernetes import event_consumer

ACCOUNT = "https://shop.blob.core.windows.net"
OWN: dict[str, Any] = {"handler": "a:B", "image": "shop:1"}
REPLACE: dict[str, Any] = OWN | {"handlerMode": "Replace"}
NO_SPARK = {"enabled": False}
OUTPUT = {"path": "abfss://out@shop.dfs.core.windows.net/orders"}
FLAT = OUTPUT | {"body": {"columns": "FromSink"}}
SECRET_AT_REGISTRY = {"basicSecretRef": {"name": "s", "key": "k"}}
REGISTRY = "https://shop.servicebus.windows.net"
LONG_KEY = "a" * 400


def spec(**parts: Any) -> dict[str, Any]:
    """GOOD without Spark, with some parts added to it."""
    made: dict[str, Any] = {name: value for name, value in GOOD.items() if name != "spark"}
    for name, value in parts.items():
        made[name] = made.get(name, {}) | value if isinstance(value, dict) else value
    return made


def avro(registry: dict[str, Any]) -> dict[str, Any]:
    return spec(spark={"output": OUTPUT | {"body": {"type": "Avro", "registry": registry}}})


def pods(**parts: Any) -> dict[str, Any]:
    return spec(pods=parts)


def placed(path: str, **parts: Any) -> dict[str, Any]:
    """GOOD with fields of hosts (pods), spark.driver or spark.executor."""
    if path == "pods":
        return pods(**parts)
    return spec(spark={"output": OUTPUT, path.removeprefix("spark."): parts})


def node(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return pods(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def pod_term(kind: str, selector: dict[str, Any], *, required: bool = True, path: str = "pods") -> dict[str, Any]:
    term = {"labelSelector": selector, "topologyKey": "zone"}
    if required:
        return placed(path, affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    wish = {"weight": 1, "podAffinityTerm": term}
    return placed(path, affinity={kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}})


def affinity_keys(path: str, kind: str, required: bool) -> tuple[str, dict[str, Any]]:
    place = (
        "requiredDuringSchedulingIgnoredDuringExecution[]"
        if required
        else "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm"
    )
    message = f"{path}.affinity.{kind}.{place}.labelSelector.matchLabels: keys have 1 to 317 characters"
    return message, pod_term(kind, {"matchLabels": {LONG_KEY: "v"}}, required=required, path=path)


def pod_fields(path: str) -> dict[str, dict[str, Any]]:
    """Rules of the fields that hosts, drivers and executors have."""
    return {
        f"{path}.annotations: at most": placed(
            path, annotations={f"example.com/{number}": "x" * 4096 for number in range(4)}
        ),
        f"{path}.labels: keys of": placed(path, labels={"app.kubernetes.io/name": "mine"}),
        f"{path}.annotations: keys of": placed(path, annotations={"eventconsumer.io/config-hash": "mine"}),
        f"{path}.nodeSelector: keys have": placed(path, nodeSelector={LONG_KEY: "v"}),
        f"{path}.labels: keys have": placed(path, labels={LONG_KEY: "v"}),
        f"{path}.annotations: keys have": placed(path, annotations={LONG_KEY: "v"}),
        **dict(
            affinity_keys(path, kind, required)
            for kind in ("podAffinity", "podAntiAffinity")
            for required in (True, False)
        ),
    }


def handler(**parts: Any) -> dict[str, Any]:
    return spec(processing=OWN | parts)


def program(**parts: Any) -> dict[str, Any]:
    return spec(spark={"output": OUTPUT, "application": parts})


def egress(**peer: Any) -> dict[str, Any]:
    return handler(egress=[{"to": [peer], "ports": [{"port": 5432}]}])


def program_egress(image: str | None, **peer: Any) -> dict[str, Any]:
    application = {"egress": [{"to": [peer], "ports": [{"port": 5432}]}]} | ({"image": image} if image else {})
    return spec(spark={"output": OUTPUT, "application": application})


def columns(*given: dict[str, Any]) -> dict[str, Any]:
    return spec(sink={"body": {"type": "Json", "columns": list(given)}})


def column(kind: str = "BIGINT", **parts: Any) -> dict[str, Any]:
    return {"type": "Json", "columns": [{"name": "cents", "type": kind} | parts]}


def short(text: str) -> dict[str, Any]:
    return {"type": "Json", "schema": text}


NESTED = "MAP<STRING, " + "ARRAY<" * 6 + "DECIMAL( 10, 2 )" + ">" * 7
FROM_SECRET = {"secretKeyRef": {"name": "shop", "key": "password"}}
NAMED = {"name": "shop"}
MOUNT = {"mountPath": "/mnt/a", "configMap": NAMED}
VARIABLE, KEYS = {"name": "APP_A", "value": "b"}, {"prefix": "APP_", "secretRef": NAMED}


# Beginning of the message -> a resource that breaks the rule.
BREAKS: dict[str, dict[str, Any]] = {
    "spark processes files": GOOD | {"processing": REPLACE},
    "Spark cannot sign in at a proxy": GOOD
    | {"proxy": {"url": "http://proxy.example:3128", "credentialsSecretRef": {"name": "s", "key": "k"}}},
    "proxy.url must not contain": spec(proxy={"url": "http://user:secret@proxy.example:3128"}),
    "proxy.url must have the form": spec(proxy={"url": "https://proxy.example:3128"}),
    "replay.consumerGroup must be another": spec(replay={"name": "a", "consumerGroup": "$default"}),  # the same
    "replay.from must be before replay.to": spec(
        replay={
            "name": "a",
            "consumerGroup": "replay",
            "from": "2026-01-02T00:00:00Z",
            "to": "2026-01-01T00:00:00Z",
        }
    ),
    "eventHub: fullyQualifiedNamespace and name are required": spec(eventHub={"authentication": IDENTITY}),
    "authentication: set exactly one of": spec(sink={"authentication": {}}),
    "checkpointStore: storageAccountUrl is required": spec(checkpointStore={"authentication": IDENTITY}),
    "startingPosition: enqueuedTime is for": spec(startingPosition={"type": "EnqueuedTime"}),
    "startingPosition: offset is for": spec(startingPosition={"type": "Latest", "offset": "7"}),
    "startingPosition: sequenceNumber is for": spec(startingPosition={"partitions": {"0": {"sequenceNumber": 7}}}),
    "processing.image is the image": spec(processing={"image": "shop/orders:1"}),
    "processing.handlerMode: Transform or Replace needs": spec(processing={"handlerMode": "Transform"}),
    "processing.checkpoint.policy: File needs": spec(processing=REPLACE | {"checkpoint": {"policy": "File"}}),
    "processing.checkpoint.policy: Handler needs": spec(processing=OWN | {"checkpoint": {"policy": "Handler"}}),
    "processing.handler is for an image of your own": spec(processing={"handler": "antigravity:Shop"}),
    "processing.env is for an image of your own": spec(processing={"env": [VARIABLE]}),
    "processing.envFrom is for an image of your own": spec(processing={"envFrom": [KEYS]}),
    "processing.volumes is for an image of your own": spec(processing={"volumes": [MOUNT]}),
    "processing.egress is for an image of your own": spec(
        processing={"egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 1}]}]}
    ),
    "spark.application.env is for an image of your own": program(env=[VARIABLE]),
    "spark.application.envFrom is for an image of your own": program(envFrom=[KEYS]),
    "spark.application.volumes is for an image of your own": program(volumes=[MOUNT]),
    "spark.application.egress is for an image of your own": program_egress(None, podSelector={}),
    "spark.application.mainFile is no program of": program(
        mainFile="local:///app/eventconsumer_api/resource/crdgen.py"
    ),
    "processing.env: at most": handler(env=[{"name": f"APP_{number}", "value": "x" * 4096} for number in range(5)]),
    "spark.application.env: at most": program(
        image="shop:1", env=[{"name": f"APP_{number}", "value": "x" * 4096} for number in range(5)]
    ),
    "env: set exactly one of": handler(env=[{"name": "APP_A"}]),
    "env: a name begins with": handler(env=[{"name": "PYTHONPATH", "value": "/config/mine"}]),
    "env: a value with $(": handler(env=[{"name": "APP_A", "value": "x$(POD_UID)"}]),
    "valueFrom: set exactly one of": handler(env=[{"name": "APP_A", "valueFrom": {}}]),
    "envFrom: set exactly one of": handler(envFrom=[{"prefix": "APP_"}]),
    "envFrom: a prefix begins with": handler(envFrom=[{"prefix": "https_", "configMapRef": NAMED}]),
    "volumes: set exactly one of": handler(volumes=[{"mountPath": "/mnt/a"}]),
    "egress: set exactly one of": egress(),
    "egress: namespaces is for": egress(ipBlock={"cidr": "10.0.0.0/8"}, namespaces=["data"]),
    "processing.egress[].to[].podSelector.matchLabels: keys have": egress(podSelector={"matchLabels": {LONG_KEY: "v"}}),
    "spark.application.egress[].to[].podSelector.matchLabels: keys have": program_egress(
        "registry.example/mine:1", podSelector={"matchLabels": {LONG_KEY: "v"}}
    ),
    "scaling.replicas is required": spec(scaling={"mode": "Lag", "replicas": 3}),
    "scaling.minReplicas must not be above": spec(scaling={"minReplicas": 3, "maxReplicas": 2}),
    "scaling.minReplicas: 0 needs mode: Lag": spec(scaling={"minReplicas": 0}),
    "sink: storageAccountUrl is required": spec(sink={"authentication": IDENTITY}),
    "sink.layout: Capture is the layout": spec(sink={"layout": "Capture"}),
    "sink.emptyFiles needs": spec(sink={"emptyFiles": True}),
    "spark.trigger.windowSeconds must divide a day": GOOD
    | {"spark": {"output": OUTPUT, "trigger": {"windowSeconds": 7000}}},
    "spark.trigger.windowSeconds alone starts batches": GOOD
    | {"spark": {"output": OUTPUT, "trigger": {"windowSeconds": 3600, "files": 5}}},
    "spark.idleTimeoutSeconds needs": GOOD
    | {"spark": {"output": OUTPUT, "idleTimeoutSeconds": 60, "batch": {"inFlight": 2}}},
    "sink.table registers Parquet files": spec(sink={"table": {}, "format": "Avro"}),
    "sink.table registers files, and": spec(sink={"table": {}}, processing=REPLACE),
    "sink.body makes columns of Parquet files": spec(sink={"body": column(), "format": "Avro"}),
    "sink.body makes columns of files, and": spec(sink={"body": column()}, processing=REPLACE),
    "sink.body: type: Json needs": spec(sink={"body": {"type": "Json"}}),
    "sink.body: schema is the short form": spec(sink={"body": column() | {"schema": "a DATE"}}),
    "sink.body.columns: two columns": columns({"name": "a", "type": "DATE"}, {"name": "A", "type": "DATE"}),
    "sink.body.columns: at most 8": columns(
        *({"name": f"a{number}", "type": "DATE", "statistics": True} for number in range(9))
    ),
    "sink.body.columns: another column": columns({"name": "Body", "type": "DATE"}),
    "sink.body.columns: BOOLEAN, ARRAY": columns({"name": "a", "type": "array<DATE>", "statistics": True}),
    "sink.body.columns: from is for": columns({"name": "a", "type": "DATE", "from": "EpochMillis"}),
    "sink.notices announces files, and": spec(
        sink={"notices": {"url": "https://hooks.example/files"}}, processing=REPLACE
    ),
    "sink.retention needs a limit": spec(sink={"retention": {}}),
    "sink.retention removes files, and": spec(sink={"retention": {"days": 30}}, processing=REPLACE),
    "sink.retention.keepUncommitted: false removes files that Spark": GOOD
    | {"sink": GOOD["sink"] | {"retention": {"days": 30, "keepUncommitted": False}}, "spark": {"output": OUTPUT}},
    "spark.output.path is required": spec(spark={"enabled": True}),
    "spark.output.body.schema is for": spec(
        spark={"output": OUTPUT | {"body": {"type": "Text", "schema": "id BIGINT"}}}
    ),
    "spark.output.body.times is for": spec(
        spark={"output": OUTPUT | {"body": {"type": "Json", "times": {"at": "EpochMillis"}}}}
    ),
    "spark.output.body.columns: FromSink takes": spec(
        spark={"output": OUTPUT | {"body": {"type": "Text", "columns": "FromSink"}}},
        sink={"body": short("a DATE")},
    ),
    "spark.output.body.columns: FromSink needs": spec(spark={"output": FLAT}),
    "spark.output.body.times: keys have": spec(
        spark={"output": OUTPUT | {"body": {"type": "Json", "schema": "at TIMESTAMP", "times": {"a" * 257: "Iso8601"}}}}
    ),
    "use a number with no unit or": spec(pods={"resources": {"limits": {"memory": "256mb"}}}),
    "spark.output.body.registry is for": spec(spark={"output": OUTPUT | {"body": {"type": "Avro"}}}),
    "registry.type: AzureSchemaRegistry needs": avro(
        {"type": "AzureSchemaRegistry", "url": REGISTRY, "authentication": SECRET_AT_REGISTRY}
    ),
    "registry.authentication.workloadIdentity is for": avro(
        {"type": "Confluent", "url": REGISTRY, "authentication": {"workloadIdentity": {"clientId": "c"}}}
    ),
    "registry.authentication: set exactly one of": avro({"type": "Confluent", "url": REGISTRY, "authentication": {}}),
    "spark.mode: Local needs": spec(spark={"output": OUTPUT, "mode": "Local", "launcher": "Kubeflow"}),
    "spark.reprocess.from must not be above": spec(
        spark={"output": OUTPUT, "reprocess": {"name": "a", "from": 3, "to": 2}}
    ),
    "spark.application.conf: keys have": spec(
        spark={"output": OUTPUT, "application": {"conf": {"spark." + "x" * 250: "1"}}}
    ),
    "spark.application.arguments: at most": spec(
        spark={"output": OUTPUT, "application": {"arguments": ["x" * 4096] * 9}}
    ),
    "spark.application.conf: use only properties": spec(
        spark={"output": OUTPUT, "application": {"conf": {"spark.jars": "https://evil.example/x.jar"}}}
    ),
    "startingPosition.partitions: keys have": spec(startingPosition={"partitions": {"0" * 9: {"type": "Latest"}}}),
    "pods.resources: a request must not be above": pods(
        resources={"requests": {"cpu": "1500m"}, "limits": {"cpu": 1, "memory": "1Gi"}}
    ),
    "pods.resources.requests: the keys are": pods(resources={"requests": {"nvidia.com/gpu": 1}}),
    "pods.resources.limits: the keys are": pods(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
    "tolerations: value is for": pods(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
    "tolerations: without key": pods(tolerations=[{"effect": "NoSchedule"}]),
    "tolerations: tolerationSeconds is for": pods(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}]
    ),
    "matchExpressions: values are required": node({"key": "a", "operator": "In"}),
    "matchExpressions: operators Gt and Lt": node({"key": "a", "operator": "Gt", "values": ["many"]}),
    "labelSelector: operators Gt and Lt": pod_term(
        "podAffinity", {"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1"]}]}
    ),
    **pod_fields("pods"),
    **pod_fields("spark.driver"),
    **pod_fields("spark.executor"),
    "scratch.size must be": placed("spark.driver", scratch={"size": 0}),
    "spark.driver.cpuLimit": placed("spark.driver", coreRequest="250m", cpuLimit="200m"),
    "spark.executor.cpuLimit": placed("spark.executor", cores=2, cpuLimit="1500m"),
    "spark.executor.minInstances must not be above": placed("spark.executor", minInstances=3),
}
# The other direction of some rules.
REVERSED = [
    ("authentication: set exactly one of", spec(sink={"authentication": SECRET | IDENTITY})),
    ("scaling.replicas is required", spec(scaling={"mode": "Fixed"})),
    ("env: set exactly one of", handler(env=[VARIABLE | {"valueFrom": FROM_SECRET}])),
    ("env: a name begins with", handler(env=[{"name": "no_proxy", "value": "*"}])),
    ("env: a name begins with", handler(env=[{"name": "APP_", "value": "/mnt"}])),
    ("env: a name begins with", program(image="shop:1", env=[{"name": "KUBECONFIG", "value": "/mnt/a"}])),
    ("processing.image is the image", spec(processing={"image": "shop/orders:1", "env": [VARIABLE]})),
    (
        "valueFrom: set exactly one of",
        handler(env=[{"name": "APP_A", "valueFrom": FROM_SECRET | {"configMapKeyRef": NAMED | {"key": "a"}}}]),
    ),
    ("envFrom: set exactly one of", handler(envFrom=[{"prefix": "A_B_", "configMapRef": NAMED, "secretRef": NAMED}])),
    ("envFrom: a prefix begins with", handler(envFrom=[{"prefix": "APP", "configMapRef": NAMED}])),
    (
        "volumes: set exactly one of",
        handler(volumes=[{"mountPath": "/mnt/a", "configMap": NAMED, "secret": {"secretName": "shop"}}]),
    ),
    ("egress: set exactly one of", egress(ipBlock={"cidr": "10.0.0.0/8"}, podSelector={})),
    # Not CEL, but the schema itself.
    ("duplicate entries for key", handler(env=[VARIABLE, VARIABLE])),
    ("duplicate entries for key", handler(volumes=[MOUNT] * 2)),
    ("mountPath", handler(volumes=[{"mountPath": "/var/run/secrets/eventconsumer.io", "configMap": NAMED}])),
    ("mountPath", handler(volumes=[{"mountPath": "/config/../etc", "configMap": NAMED}])),
    ("prefix", handler(envFrom=[{"prefix": "", "configMapRef": NAMED}])),
    ("cidr", egress(ipBlock={"cidr": "everywhere"})),
    *(
        ("prefix", spec(**{part: {"prefix": prefix}}))
        for part in ("sink", "checkpointStore")
        for prefix in (
            "..",
            "../x",
            "a/../b",
            "./a",
            "a//b",
            "/a",
            "a/..",
            ".",
            "a/./",
            "%2e%2e/a",
            "a?b",
            "a#b",
            "a\\b",
            "a\n",
        )
    ),
    *(
        ("path", spec(spark={"output": {"path": f"abfss://out@shop.dfs.core.windows.net/{folder}"}}))
        for folder in ("..", "../x", "a/../b", "a//b", "./a", "a/.", "%2e%2e/a", "a?b", "a#b", "a\\b")
    ),
    *(
        ("consumerGroup", spec(**{part: given | {"consumerGroup": group}}))
        for part, given in (("eventHub", {}), ("replay", {"name": "a"}))
        for group in ("../x", "a/b", "..", ".", "a b", "$(A)", "a\n", "$Other")
    ),
    ("partitions", spec(replay={"name": "a", "consumerGroup": "b", "partitions": ["../1"]})),
    ("offset", spec(startingPosition={"type": "Offset", "offset": "1' or '1'='1"})),
    *(
        ("image", each)
        for image in (
            "registry.example/$(A)",
            "a b",
            "a\n",
            "https://registry.example/a",
            "registry.example/../a",
            "registry.example//a",
            "a:b:c",
            "-a",
            "registry.example/A:1",
            "a@sha256:0",
        )
        for each in (handler(image=image), spec(spark={"output": OUTPUT, "application": {"image": image}}))
    ),
    ("acknowledgedGapEvents", spec(acknowledgedGapEvents=-1)),
    ("sink.body: type: Json needs", spec(sink={"body": {"columns": column()["columns"]}})),
    ("spark.output.body.columns: FromSink needs", spec(spark={"output": FLAT}, sink={"body": {"type": "Binary"}})),
    ("sink.body: type: Json needs", spec(sink={"body": {"type": "Binary", "schema": "a DATE"}})),
    ("sink.body.columns: BOOLEAN, ARRAY", columns({"name": "a", "type": "boolean", "statistics": True})),
    ("duplicate entries for key", columns({"name": "a", "type": "DATE"}, {"name": "a", "type": "BIGINT"})),
    *(("letters, digits and _", columns({"name": name, "type": "DATE"})) for name in ("_error", "1a", "a-b", "a.b")),
    *(
        ("write BIGINT for INT", columns({"name": "a", "type": kind}))
        for kind in (
            "INT",
            "float",
            "ARRAY<INT>",
            "STRUCT<a: INT>",
            "MAP<STRING, SMALLINT>",
            "STRUCT<a STRING>",
            "",
            "a\n",
        )
    ),
    *(
        ("write BIGINT for INT", spec(sink={"body": short(text)}))
        for text in (
            "",
            "a",
            "a INT",
            "a DATE, b FLOAT",
            "a: DATE",
            "a DATE NULL",
            "_a DATE",
            "a ARRAY<STRUCT<b: INT>>",
        )
    ),
    *(
        ("use names of members", columns({"name": "a", "type": "DATE", "path": path}))
        for path in ("", "$", "a", "$.a[0]", "$.*", "$..a", "$['it\\'s']", '$["a"]', "$.a\n", "$['\u202e']")
    ),
]

# Beginning of the message, a field, its value, and another one that it must not take.
CHANGES: list[tuple[str, str, Any, Any]] = [
    ("eventHub.name cannot change", "eventHub.name", "orders", "other"),
    ("eventHub.name cannot change", "eventHub.name", None, "orders"),
    ("eventHub.name cannot change", "eventHub.name", "orders", None),
    ("eventHub.fullyQualifiedNamespace cannot change", "eventHub.fullyQualifiedNamespace", "a.example", None),
    ("eventHub.fullyQualifiedNamespace cannot change", "eventHub.fullyQualifiedNamespace", None, "a.example"),
    ("eventHub.fullyQualifiedNamespace cannot change", "eventHub.fullyQualifiedNamespace", "a.example", "b.example"),
    ("eventHub.consumerGroup cannot change", "eventHub.consumerGroup", "a", "b"),
    ("eventHub.consumerGroup cannot change", "eventHub.consumerGroup", None, "b"),
    ("checkpointStore.container cannot change", "checkpointStore.container", "leases", "others"),
    ("checkpointStore.layout cannot change", "checkpointStore.layout", "AzureSdk", None),
    ("sink.container cannot change", "sink.container", "drained", "others"),
    ("sink.prefix cannot change", "sink.prefix", "folder", None),
    ("sink.prefix cannot change", "sink.prefix", None, "folder"),
    ("sink.format and sink.layout cannot change", "sink.layout", "SequenceNumber", "Capture"),
    ("sink.body.columns: the type of a column cannot", "sink.body", column(), column("STRING")),
    ("sink.body.columns: the type of a column cannot", "sink.body", column("DECIMAL(9, 2)"), column("DECIMAL(10, 2)")),
    ("sink.body.columns: the path of a column cannot", "sink.body", column(), column(path="$.price.cents")),
    (
        "sink.body.columns: from cannot change",
        "sink.body",
        column("TIMESTAMP"),
        column("TIMESTAMP", **{"from": "EpochMillis"}),
    ),
    ("sink.body.schema: only a column more", "sink.body", short("a DATE, b BIGINT"), short("a DATE")),
    ("sink.body.schema: only a column more", "sink.body", short("a DATE"), short("a DATE NOT NULL")),
    ("sink.body.schema: only a column more", "sink.body", short("a DATE"), short("a STRING, b DATE")),
    ("sink.body.columns cannot take the place", "sink.body", short("cents BIGINT"), column(path="$.price.cents")),
    ("sink.body.schema cannot take the place", "sink.body", column(path="$.price.cents"), short("cents BIGINT")),
    (
        "sink.body.columns cannot take the place",
        "sink.body",
        short("cents TIMESTAMP"),
        column("TIMESTAMP", **{"from": "EpochMillis"}),
    ),
]
NAME_RULE = "metadata.name: use at most 47"

ACCEPTED: dict[str, dict[str, Any]] = {
    "columns of each type": columns(
        *(
            {"name": f"a{number}", "type": kind, "path": f"$.a['b {number}']['größe']", "statistics": number < 8}
            for number, kind in enumerate(
                ("string", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL(38,0)", " decimal( 2 , 2 )", "STRING")
            )
        ),
        {"name": "b", "type": NESTED, "required": True},
        {"name": "c", "type": "STRUCT<a: BOOLEAN, `@type`: STRING, at: ARRAY<TIMESTAMP>>", "from": "EpochMicros"},
    ),
    "the most columns": columns(
        *({"name": f"a{number:03}" + "x" * 124, "type": f"STRUCT<{'a' * 2000}: DATE>"} for number in range(200))
    ),
    "columns of the files in the output": spec(spark={"output": FLAT}, sink={"body": short("a DATE")}),
    "columns in one text": spec(sink={"body": short(f"a STRING, b BIGINT NOT NULL, c {NESTED} not null, d DATE")}),
    "the column body alone": spec(sink={"body": {}}),
    "a key with a domain": pods(labels={"shop.example/team": "a"}, annotations={"kubernetes.io.example/x": "y"}),
    "a request at its limit": pods(resources={"requests": {"memory": "1024Mi"}, "limits": {"memory": "1Gi"}}),
    "tolerate everything": pods(tolerations=[{"operator": "Exists"}]),
    "for a time": pods(
        tolerations=[{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0}],
    ),
    "more cores": node({"key": "cores", "operator": "Gt", "values": ["7"]}, {"key": "b", "operator": "DoesNotExist"}),
    "away from each other": pod_term("podAntiAffinity", {"matchLabels": {"a": "b"}}),
    "wish": pod_term("podAffinity", {}, required=False),
    "hosts that follow the lag": spec(scaling={"mode": "Lag", "minReplicas": 0, "lag": {"targetSeconds": 5}}),
    "spark over avro files": GOOD | {"sink": GOOD["sink"] | {"format": "Avro"}},
    "all of spark": spec(
        spark={
            "trigger": {"files": 1, "bytes": 1, "ageSeconds": 1, "schedule": "*/5 0-6 * * MON-FRI"},
            "mode": "Local",
            "application": {"conf": {"spark.sql.shuffle.partitions": "4"}},
            "output": OUTPUT | {"format": "Parquet", "body": {"type": "Json", "schema": "id BIGINT, name STRING"}},
            "reprocess": {"name": "a", "from": 2, "to": 2},
        }
    ),
    "all of Spark's pods": spec(
        spark={
            "output": OUTPUT,
            "application": {
                "image": "shop:1",
                "mainFile": "local:///app/mine.py",
                "env": [VARIABLE, {"name": "DB_PASSWORD", "valueFrom": FROM_SECRET}],
                "envFrom": [{"prefix": "APP_", "configMapRef": NAMED}],
                "volumes": [MOUNT],
            },
            "driver": {"nodeSelector": {"pool": "a"}, "scratch": {"size": 1048576}},
            "executor": {
                "tolerations": [{"key": "spot", "value": "true"}],
                "scratch": {"size": "1000Gi", "storageClassName": "fast"},
                "instances": 5,
                "minInstances": 5,
            },
        }
    ),
    "another program of the image": program(mainFile="local:///app/examples/latest_by_key.py"),
    "the longest arguments": spec(spark={"output": OUTPUT, "application": {"arguments": ["x" * 4096] * 8}}),
    "a position of each partition": spec(
        startingPosition={"partitions": {str(number): {"type": "Offset", "offset": "9" * 20} for number in range(1024)}}
    ),
    "all that a handler gets": handler(
        env=[
            {"name": "SHOP_DATABASE", "value": "x" * 4096},
            {"name": "SHOP_PASSWORD", "valueFrom": FROM_SECRET},
            {"name": "APP_a1", "valueFrom": {"configMapKeyRef": {"name": "shop", "key": "a.b", "optional": True}}},
            *({"name": f"APP_{number}", "value": "$" * 201} for number in range(61)),
        ],
        envFrom=[
            {"prefix": "APP_", "configMapRef": NAMED},
            {"prefix": "APP_", "secretRef": NAMED | {"optional": True}},
        ],
        volumes=[
            {"mountPath": "/config/shop", "configMap": NAMED | {"items": [{"key": "a.b", "path": "c"}]}},
            {"mountPath": "/secrets/shop", "secret": {"secretName": "shop", "optional": True}},
        ],
        egress=[
            {
                "to": [
                    {"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.2.0/24"]}},
                    {"ipBlock": {"cidr": "fd00::/8"}},
                    {"podSelector": {"matchLabels": {"app": "redis"}}},
                    {"podSelector": {}, "namespaces": ["data"]},
                ],
                "ports": [{"port": 5432}, {"port": 53, "protocol": "UDP"}],
            }
        ],
    ),
    **{
        f"folders: {prefix}": spec(
            sink={"prefix": prefix},
            checkpointStore={"prefix": prefix},
            spark={"output": {"path": f"abfss://out@shop.dfs.core.windows.net/{prefix}"}},
        )
        for prefix in ("", "a", "a/b/", "day=1/.hidden/..b/c..d", "_replays/x.y")
    },
    **{
        f"the image {image}": handler(image=image)
        for image in (
            "shop",
            "shop:1",
            "registry.example/shop/orders:1.2_3-x",
            "localhost:5000/a",
            "[::1]:5000/a",
            f"Registry.example/a__b/c-d@sha256:{'0' * 64}",
            f"a.example/b:1@sha256:{'0' * 64}",
        )
    },
    "Spark properties": spec(
        spark={
            "output": OUTPUT,
            "application": {"conf": {name: form.edges[-1] for name, form in list(ALLOWED.items())[:100]}},
        }
    ),
    "a replay": spec(
        replay={
            "name": "a-1",
            "consumerGroup": "replay",
            "from": "2026-01-01T00:00:00Z",
            "to": "2026-01-02T00:00:00Z",
        }
    ),
}


def messages() -> set[str]:
    """Messages of all rules but those in the place of a pattern, which test_crd.py and test_crdgen.py test."""
    found = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            rules = node.get("x-kubernetes-validations", [])
            found.update(rule["message"] for rule in rules if not rule["rule"].startswith("self.matches(r'"))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return found


def test_every_rule_has_a_case() -> None:
    cases = (*BREAKS, *(message for message, *_ in CHANGES), NAME_RULE)
    rules = messages()
    assert not [message for message in rules if not message.startswith(cases)]
    assert not [case for case in cases if not any(message.startswith(case) for message in rules)]


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    return cluster.namespace()


def refusal(cluster: Cluster, namespace: str, content: dict[str, Any]) -> str:
    """What the API server says about a new resource; empty: it would accept it."""
    return cluster.apply(event_consumer("new", content, namespace), dry_run=True)


@pytest.mark.parametrize(("case", "content"), [*BREAKS.items(), *REVERSED])
def test_a_resource_that_breaks_a_rule_is_refused_with_its_message(
    cluster: Cluster, namespace: str, case: str, content: dict[str, Any]
) -> None:
    assert case in refusal(cluster, namespace, content)


@pytest.mark.parametrize(("case", "path", "before", "after"), CHANGES)
def test_a_fixed_field_cannot_change(
    cluster: Cluster, namespace: str, case: str, path: str, before: Any, after: Any
) -> None:
    name = f"fixed-{CHANGES.index((case, path, before, after))}"
    given, changed = with_value(path, before), with_value(path, after)
    for content in (given, changed):
        content["spark"] = NO_SPARK
        if path == "sink.layout":
            content["sink"]["format"] = "Avro"
    assert apply(cluster, namespace, given, name) == ""
    assert case in apply(cluster, namespace, changed, name)


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_resource_that_breaks_no_rule_is_accepted(cluster: Cluster, namespace: str, case: str) -> None:
    assert refusal(cluster, namespace, ACCEPTED[case]) == ""
