"""Spark Jobs: when there is one, and what is in it."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.batch import BatchJob, ResidentLimits
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.spark.plan import SMALL_BYTES
from tests.unit.operator.plan.test_plan import restricted
from tests.unit.operator.worlds import (
    KEY,
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    USER_IMAGE,
    batch,
    fleet,
    job,
    observed,
    report,
    spec_with,
)

ENTRYPOINT = Path(__file__).parents[4] / "spark/entrypoint.sh"
WITH_SPARK = SPEC | SPARK
RESIDENT = spec_with("spark.idleTimeoutSeconds", 300, WITH_SPARK)
REPROCESS = spec_with("spark.reprocess", {"name": "again", "from": 1, "to": 1}, WITH_SPARK)
NAME = application_name(KEY, UID, 1, 1)


def plan(
    spec: dict[str, Any] = WITH_SPARK,
    jobs: tuple[Manifest, ...] = (),
    number: int | None = 1,
    settings: Settings = SETTINGS,
) -> Plan:
    leader = fleet(batch=batch(number) if number else None)
    return make_plan(observed(spec, applications=jobs, reports={"orders-host-0": report(fleet=leader)}), settings)


def made(**arguments: Any) -> Manifest:
    (manifest,) = plan(**arguments).jobs
    return manifest


def driver(manifest: Manifest) -> dict[str, Any]:
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container


def driver_job(manifest: Manifest) -> dict[str, Any]:
    variable = next(each for each in driver(manifest)["env"] if each["name"] == "EVENTCONSUMER_BATCH_JOB")
    found: dict[str, Any] = json.loads(variable["value"])
    return found


def executor_of(manifest: Manifest) -> dict[str, Any]:
    """The template of executors that the driver finds in a file."""
    template = manifest["spec"]["template"]
    found: dict[str, Any] = json.loads(template["metadata"]["annotations"]["eventconsumer.io/executor"])
    (volume,) = [each for each in template["spec"]["volumes"] if "downwardAPI" in each]
    (item,) = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['eventconsumer.io/executor']"
    (mount,) = [each for each in driver(manifest)["volumeMounts"] if each["name"] == volume["name"]]
    path = f"{mount['mountPath']}/{item['path']}"
    assert f"spark.kubernetes.executor.podTemplateFile={path}\n" in ENTRYPOINT.read_text()
    return found


def confs(manifest: Manifest) -> dict[str, str]:
    arguments = driver(manifest)["args"]
    pairs = [value for flag, value in itertools.pairwise(arguments) if flag == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize(
    "case",
    [
        {"spec": SPEC},
        {"spec": WITH_SPARK | {"suspend": True}},
        {"spec": spec_with("spark.enabled", False, WITH_SPARK)},
        {"number": None},
        {"jobs": (job(NAME),)},
        {"jobs": (job(NAME, type="Failed", reason="BackoffLimitExceeded", lastTransitionTime=NOW.isoformat()),)},
        {"jobs": (job(NAME, type="Complete"),)},
    ],
    ids=["no spark", "suspended", "disabled", "no open batch", "runs", "failed", "ended"],
)
def test_no_job(case: dict[str, Any]) -> None:
    assert plan(**case).jobs == ()


def test_one_job_for_an_open_batch_whatever_became_of_others() -> None:
    assert made(number=2, jobs=(job(NAME, type="Complete"),))["metadata"]["name"] == application_name(KEY, UID, 2, 1)


def test_without_a_leader_nothing_is_started() -> None:
    assert make_plan(observed(WITH_SPARK, reports={"orders-host-0": report()}), SETTINGS).jobs == ()


def test_of_two_leaders_the_one_that_is_further_on_is_believed() -> None:
    stale, fresh = fleet(committed=1, batch=batch(2), files=9), fleet(committed=2, batch=None, files=9)
    world = observed(WITH_SPARK, reports={"a": report(fleet=stale), "b": report(fleet=fresh)})
    assert make_plan(world, SETTINGS).jobs == ()


def test_the_job_tries_once_and_ends_in_time() -> None:
    manifest = made(spec=spec_with("spark.timeoutSeconds", 600, WITH_SPARK))
    spec = manifest["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["activeDeadlineSeconds"] == 600
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert manifest["metadata"]["labels"]["eventconsumer.io/batch"] == "1"


def test_a_resident_driver_gets_its_limits_and_the_time_for_them() -> None:
    assert "resident" not in driver_job(made())
    spec = RESIDENT | {"spark": RESIDENT["spark"] | {"timeoutSeconds": 600}}
    manifest = made(spec=spec)
    limits = ResidentLimits(
        seconds=300, max_batches=500, max_age_seconds=21600, max_bytes=268435456, search_unprocessable=False
    )
    assert BatchJob.model_validate(driver_job(manifest)).resident == limits
    assert manifest["spec"]["activeDeadlineSeconds"] == 600 + 21600
    anywhere = made(spec=spec_with("spark.mode", "Local", spec))
    assert "maxBytes" not in driver_job(anywhere)["resident"]
    once = made(spec=spec_with("spark.retry", {"attempts": 1}, spec))
    assert driver_job(once)["resident"]["searchUnprocessable"] is True


def test_executors_of_a_resident_driver_end_while_it_waits() -> None:
    manifest = made(spec=spec_with("spark.mode", "Executors", RESIDENT))
    arguments = driver(manifest)["args"]
    assert {"spark.dynamicAllocation.minExecutors=0", "spark.dynamicAllocation.maxExecutors=2"} <= {*arguments}
    once = made(spec=spec_with("spark.mode", "Executors", WITH_SPARK))
    assert not any("dynamicAllocation" in each for each in driver(once)["args"])


def test_executors_between_two_limits_follow_the_waiting_tasks() -> None:
    executor = {"mode": "Executors", "executor": {"instances": 10, "minInstances": 3}}
    for resident in (0, 300):
        spark = SPARK["spark"] | executor | {"idleTimeoutSeconds": resident}
        given = confs(made(spec=WITH_SPARK | {"spark": spark}))
        assert given["spark.dynamicAllocation.enabled"] == "true"
        assert given["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
        assert given["spark.dynamicAllocation.minExecutors"] == given["spark.executor.instances"] == "3"
        assert given["spark.dynamicAllocation.initialExecutors"] == "3"
        assert given["spark.dynamicAllocation.maxExecutors"] == "10"
    local = WITH_SPARK | {"spark": SPARK["spark"] | executor | {"mode": "Local"}}
    assert not any("dynamicAllocation" in name for name in confs(made(spec=local)))


def disk(manifest: Manifest, role: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Requests and limits of ephemeral storage, and the pod's volumes without the Secret and the template."""
    pod = manifest["spec"]["template"]["spec"] if role == "driver" else executor_of(manifest)["spec"]
    (container,) = pod["containers"]
    volumes = [each for each in pod["volumes"] if not {"secret", "downwardAPI"} & each.keys()]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert {each["name"] for each in volumes} <= mounted
    resources = container["resources"]
    kind = "ephemeral-storage"
    return resources["requests"][kind], resources["limits"][kind], volumes


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_scratch_space_is_on_the_node_or_in_a_volume_that_ends_with_the_pod(role: str) -> None:
    settings = replace(SETTINGS, storage_classes=("fast",))

    def disk_of(**given: Any) -> tuple[str, str, list[dict[str, Any]]]:
        spec = WITH_SPARK | {"spark": SPARK["spark"] | {"mode": "Executors", role: given}}
        return disk(made(spec=spec, settings=settings), role)

    assert disk_of() == ("256Mi", "32768Mi", [{"name": "tmp", "emptyDir": {"sizeLimit": "32768Mi"}}])
    tmp = {"name": "tmp", "emptyDir": {"sizeLimit": "4096Mi"}}
    on_node = {"name": "spark-local-dir-1", "emptyDir": {"sizeLimit": "50Gi"}}
    assert disk_of(scratch={"size": "50Gi"}) == (f"{256 + 51200}Mi", f"{4096 + 51200}Mi", [tmp, on_node])
    requests, limits, volumes = disk_of(scratch={"size": "50Gi", "storageClassName": "fast"})
    assert (requests, limits, volumes[0]) == ("256Mi", "4096Mi", tmp)
    claim = volumes[1]["ephemeral"]["volumeClaimTemplate"]
    assert volumes[1]["name"] == "spark-local-dir-1"
    assert claim["metadata"]["labels"]["eventconsumer.io/consumer"] == "orders"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "50Gi"}},
    }


def digest_of(manifest: Manifest) -> str:
    digest: str = manifest["metadata"]["annotations"]["eventconsumer.io/resident"]
    return digest


def test_the_digest_of_a_resident_driver_depends_on_its_application_and_not_on_its_batch() -> None:
    first = digest_of(made(spec=RESIDENT))
    large = batch(9).model_copy(update={"bytes": 1 << 40})
    seen = observed(RESIDENT, reports={"a": report(fleet=fleet(committed=8, batch=large))})
    started = make_plan(seen, SETTINGS).spark.started
    assert started is not None and digest_of(started) == first
    assert digest_of(made(spec=spec_with("spark.trigger.files", 3, RESIDENT))) == first
    for path, value in (
        ("spark.driver.memory", "2g"),
        ("spark.driver.scratch", {"size": "1Gi"}),
        ("spark.idleTimeoutSeconds", 301),
        ("spark.output.path", "abfss://out@shop.dfs.core.windows.net/other"),
        ("sink.container", "elsewhere"),
    ):
        assert digest_of(made(spec=spec_with(path, value, RESIDENT))) != first, path
    assert "annotations" not in made(spec=WITH_SPARK)["metadata"]


@pytest.mark.parametrize(
    ("spec", "number", "deleted"),
    [
        (RESIDENT, 1, False),
        (spec_with("spark.driver.memory", "2g", RESIDENT), 1, True),
        (spec_with("spark.idleTimeoutSeconds", 0, RESIDENT), 1, True),
        (spec_with("spark.driver.memory", "2g", RESIDENT), 2, False),  # it processes the batch of its own
        (RESIDENT | {"suspend": True}, 1, True),
        (RESIDENT | {"suspend": True}, 2, True),
    ],
)
@pytest.mark.parametrize("is_open", [True, False])
def test_outdated_and_suspended_resident_drivers_are_deleted(
    spec: dict[str, Any], number: int, is_open: bool, deleted: bool
) -> None:
    found = job("stays", number if is_open else 1)
    found["metadata"]["annotations"] = {"eventconsumer.io/resident": digest_of(made(spec=RESIDENT))}
    told = fleet(committed=1, batch=batch(2) if is_open else None)
    seen = observed(spec, applications=(found,), reports={"a": report(fleet=told)})
    expected = (found,) if deleted or (not is_open and spec != RESIDENT) else ()
    assert make_plan(seen, SETTINGS).spark.deleted == expected


def test_the_driver_gets_its_batch_and_no_secret() -> None:
    environment = {variable["name"]: variable for variable in driver(made())["env"]}
    told = BatchJob.model_validate_json(environment["EVENTCONSUMER_BATCH_JOB"]["value"])
    assert (told.number, told.application, told.resource.uid) == (1, NAME, UID)
    assert told.sink == plan().config.sink
    assert told.output.path == SPARK["spark"]["output"]["path"]
    assert {"POD_NAME", "POD_IP", "POD_NAMESPACE"} < environment.keys()


def test_the_driver_is_restricted_and_waits_for_its_secret() -> None:
    pod = made()["spec"]["template"]["spec"]
    restricted(pod)
    assert pod["serviceAccountName"] == "eventconsumer-spark"
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["optional"] is False
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    credential = plan().config.sink.credential.connection_string_file
    assert credential is not None and credential.rpartition("/")[0] in mounts


def test_sizes_reach_spark_and_the_pod() -> None:
    spec = spec_with("spark.driver", {"cores": 2, "coreRequest": "250m", "memory": "2g"}, WITH_SPARK)
    spec["spark"]["mode"] = "Executors"
    spec["spark"]["executor"] = {"instances": 4, "cores": 3, "memory": "512m"}
    manifest = made(spec=spec)
    given = confs(manifest)
    assert given["spark.driver.memory"] == "2g"
    assert given["spark.executor.instances"] == "4"
    assert given["spark.executor.cores"] == "3"
    assert given["spark.executor.memory"] == "512m"
    assert given["spark.kubernetes.executor.request.cores"] == "3"
    assert given["spark.kubernetes.container.image"] == "spark:1"
    assert given["spark.kubernetes.executor.label.eventconsumer.io/consumer"] == "orders"
    memory = f"{2048 + 819}Mi"  # heap and 40 %
    assert driver(manifest)["resources"] == {
        "requests": {"cpu": "250m", "memory": memory, "ephemeral-storage": "256Mi"},
        "limits": {"memory": memory, "ephemeral-storage": "32768Mi"},
    }


def test_pods_have_a_limit_of_cpu_only_where_the_spec_sets_one() -> None:
    executors = spec_with("spark.mode", "Executors", WITH_SPARK)
    assert "cpu" not in driver(made(spec=executors))["resources"]["limits"]
    assert "spark.kubernetes.executor.limit.cores" not in confs(made(spec=executors))
    limited = spec_with("spark.driver", {"cpuLimit": 2}, spec_with("spark.executor", {"cpuLimit": "1.5"}, executors))
    manifest = made(spec=limited)
    assert driver(manifest)["resources"]["limits"]["cpu"] == "2"
    assert confs(manifest)["spark.kubernetes.executor.limit.cores"] == "1.5"


BATCH_BYTES = batch().bytes


@pytest.mark.parametrize(
    ("spark", "local"),
    [
        ({}, True),
        ({"localMaxBytes": BATCH_BYTES}, True),
        ({"localMaxBytes": BATCH_BYTES - 1}, False),
        ({"mode": "Local", "localMaxBytes": 0}, True),
        ({"mode": "Executors"}, False),
    ],
)
def test_small_batches_run_in_the_driver_without_any_right(spark: dict[str, Any], local: bool) -> None:
    manifest = made(spec=WITH_SPARK | {"spark": SPARK["spark"] | spark | {"driver": {"cores": 3}}})
    assert (driver(manifest)["args"][:3] == ["driver", "--local", "3"]) is local
    assert manifest["spec"]["template"]["spec"]["automountServiceAccountToken"] is not local
    assert any(name.startswith("spark.executor.") for name in confs(manifest)) is not local
    assert ("eventconsumer.io/executor" in json.dumps(manifest)) is not local


@pytest.mark.parametrize(("size", "mode", "quick"), [(0, "Local", True), (1, "Local", False), (0, "Executors", False)])
def test_a_driver_that_lives_for_a_small_batch_only_starts_quickly(size: int, mode: str, quick: bool) -> None:
    opened = batch().model_copy(update={"bytes": SMALL_BYTES + size})
    world = observed(
        WITH_SPARK | {"spark": SPARK["spark"] | {"mode": mode}},
        reports={"orders-host-0": report(fleet=fleet(batch=opened))},
    )
    (manifest,) = make_plan(world, SETTINGS).jobs
    assert ("TieredStopAtLevel=1" in confs(manifest).get("spark.driver.extraJavaOptions", "")) is quick


def test_python_and_java_of_driver_and_executors_use_the_proxy_but_not_for_the_api_server() -> None:
    given = {"url": "http://proxy.shop.example:3128", "noProxy": ["shop.blob.core.windows.net"]}
    settings = replace(SETTINGS, proxy_suffixes=("proxy.shop.example",))
    manifest = made(spec=WITH_SPARK | {"proxy": given}, settings=settings)
    variables = {each["name"]: each.get("value") for each in driver(manifest)["env"]}
    assert variables["HTTPS_PROXY"] == variables["HTTP_PROXY"] == given["url"]
    assert variables["NO_PROXY"] == "kubernetes.default.svc,localhost,127.0.0.1,shop.blob.core.windows.net"
    found = confs(manifest)
    for role in ("driver", "executor"):
        options = found[f"spark.{role}.extraJavaOptions"].split()
        assert "-Dhttps.proxyHost=proxy.shop.example" in options
        assert "-Dhttps.proxyPort=3128" in options
        direct = "kubernetes.default.svc|localhost|127.0.0.1|shop.blob.core.windows.net|*.shop.blob.core.windows.net"
        assert f"-Dhttp.nonProxyHosts={direct}" in options
    assert found["spark.hadoop.fs.azure.networking.library"] == "JDK_HTTP_URL_CONNECTION"


def told(settings: Settings, spec: dict[str, Any]) -> BatchJob:
    return BatchJob.model_validate(driver_job(made(spec=spec, settings=settings)))


def test_drivers_get_the_allowed_endpoints_of_storage() -> None:
    own = replace(SETTINGS, storage_suffixes=("azure.example",))
    emulators = replace(SETTINGS, allow_insecure_endpoints=True)
    for spec in (WITH_SPARK, REPROCESS):
        output = spec_with("spark.output.path", "abfss://out@shop.dfs.azure.example/orders", spec)
        assert told(own, output).storage_suffixes == ("azure.example",)
        assert not told(SETTINGS, spec).allow_insecure_endpoints and told(emulators, spec).allow_insecure_endpoints


def test_drivers_get_the_columns_of_bodies() -> None:
    for spec in (WITH_SPARK, REPROCESS):
        assert told(SETTINGS, spec).columns == ()
        body = {"type": "Json", "columns": [{"name": "cents", "type": "bigint", "path": "$['$(PATH)'].c"}]}
        (column,) = told(SETTINGS, spec_with("sink.body", body, spec)).columns
        assert (column.name, column.type) == ("cents", "long")
        assert told(SETTINGS, spec_with("sink.body", {"type": "Binary"}, spec)).body is None


def test_the_program_gets_the_path_of_its_manifest() -> None:
    environment = {variable["name"]: variable for variable in driver(made())["env"]}
    url = environment["EVENTCONSUMER_BATCH_MANIFEST"]["value"]
    assert url.startswith("abfss://drained@shop.dfs.core.windows.net/")
    assert url.endswith("/_batches/0000000001.json")


def test_a_small_heap_gets_the_smallest_overhead() -> None:
    manifest = made(spec=spec_with("spark.driver", {"memory": "512m"}, WITH_SPARK))
    assert driver(manifest)["resources"]["limits"]["memory"] == "896Mi"


def test_the_program_and_its_arguments_come_last() -> None:
    application = {"image": USER_IMAGE, "mainFile": "local:///app/mine.py", "arguments": ["--top", "--conf"]}
    arguments = driver(made(spec=spec_with("spark.application", application, WITH_SPARK)))["args"]
    assert arguments[0] == "driver"
    assert arguments[-3:] == ["local:///app/mine.py", "--top", "--conf"]


def test_switching_spark_off_ends_running_jobs_only() -> None:
    running, ended = job("one"), job("two", type="Complete")
    assert plan(spec=SPEC, jobs=(running, ended)).deleted == (running,)
    assert plan(spec=WITH_SPARK | {"suspend": True}, jobs=(running,)).deleted == ()
    assert plan(jobs=(running,)).deleted == ()


def test_the_job_manifest_is_plain_json() -> None:
    assert json.loads(json.dumps(made())) == made()


def test_the_credential_of_a_schema_registry_is_in_the_driver_only() -> None:
    settings = replace(SETTINGS, schema_registries=("https://registry.example", "https://shop.servicebus.windows.net"))
    secret: dict[str, Any] = {"type": "Confluent", "url": "https://registry.example"}
    secret |= {"authentication": {"basicSecretRef": {"name": "registry-user", "key": "basic"}}}
    made_of = spec_with("spark.output.body", {"type": "Avro", "registry": secret}, WITH_SPARK)
    manifest = made(spec=spec_with("spark.mode", "Executors", made_of), settings=settings)
    pod = manifest["spec"]["template"]
    volume = next(each for each in pod["spec"]["volumes"] if each["name"] == "registry")
    mount = next(each for each in driver(manifest)["volumeMounts"] if each["name"] == "registry")
    assert volume["secret"]["secretName"] == "registry-user" and not volume["secret"]["optional"]
    described = BatchJob.model_validate(driver_job(manifest)).registry
    assert described and described.connection_string_file == f"{mount['mountPath']}/connection-string"
    assert mount["readOnly"] and described.key == "basic"
    assert "registry" not in json.dumps(pod["metadata"])  # the template of the executors
    assert "azure.workload.identity/use" not in pod["metadata"]["labels"]
    identity: dict[str, Any] = {"type": "AzureSchemaRegistry", "url": "https://shop.servicebus.windows.net"}
    identity |= {"authentication": {"workloadIdentity": {"clientId": "c"}}}
    manifest = made(
        spec=spec_with("spark.output.body", {"type": "Avro", "registry": identity}, WITH_SPARK), settings=settings
    )
    pod = manifest["spec"]["template"]
    assert pod["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert not any(each["name"] == "registry" for each in pod["spec"]["volumes"])
