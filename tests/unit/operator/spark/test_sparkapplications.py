"""SparkApplications for the launchers Kubeflow and Apache: what is in them, and which pods they leave behind."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import APACHE_APPLICATION, KUBEFLOW_APPLICATION, kind_of
from eventconsumer_operator.plan import Plan, make_plan
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.settings import parse_settings
from eventconsumer_operator.spark.sparkapplications import DRIVER_CONTAINER, EXECUTOR_CONTAINER, SPARK_VERSION
from tests.unit.operator.plan.test_plan import restricted
from tests.unit.operator.resource.test_plan_pods import AFFINITY, ALLOWING
from tests.unit.operator.spark.test_plan_spark import executor_of
from tests.unit.operator.worlds import (
    IDENTITY,
    KEY,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    USER_IMAGE,
    batch,
    fleet,
    observed,
    report,
)

ROOT = Path(__file__).parents[4]
ENABLED = dataclasses.replace(SETTINGS, spark_launchers=(Launcher.KUBEFLOW, Launcher.APACHE))
NAME = application_name(KEY, UID, 1, 1)
BOTH = pytest.mark.parametrize("launcher", ["Kubeflow", "Apache"])


def plan(launcher: str, drivers: tuple[Manifest, ...] = (), settings: Any = ENABLED, **spark: Any) -> Plan:
    sink = spark.pop("sink", {})
    spec = SPEC | {"spark": SPARK["spark"] | {"launcher": launcher} | spark, "sink": SPEC["sink"] | sink}
    leader = report(fleet=fleet(batch=batch(1)))
    return make_plan(observed(spec, drivers=drivers, reports={"orders-host-0": leader}), settings)


def made(launcher: str, settings: Any = ENABLED, **spark: Any) -> Manifest:
    (manifest,) = plan(launcher, settings=settings, **spark).jobs
    return manifest


def templates(manifest: Manifest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of driver and executors."""
    spec = manifest["spec"]
    if kind_of(manifest) == KUBEFLOW_APPLICATION:
        return spec["driver"]["template"], spec["executor"]["template"]
    return spec["driverSpec"]["podTemplateSpec"], spec["executorSpec"]["podTemplateSpec"]


@BOTH
def test_head(launcher: str) -> None:
    manifest = made(launcher)
    assert kind_of(manifest) == {"Kubeflow": KUBEFLOW_APPLICATION, "Apache": APACHE_APPLICATION}[launcher]
    metadata = manifest["metadata"]
    assert (metadata["name"], metadata["namespace"]) == (NAME, "shop")
    assert metadata["labels"]["eventconsumer.io/batch"] == "1"
    assert metadata["labels"]["eventconsumer.io/attempt"] == "1"
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (UID, True)
    assert json.loads(json.dumps(manifest)) == manifest


@BOTH
def test_pods_are_restricted_and_only_the_driver_may_call_the_api(launcher: str) -> None:
    driver, executor = templates(made(launcher))
    for template, name in ((driver, DRIVER_CONTAINER), (executor, EXECUTOR_CONTAINER)):
        restricted(template["spec"])
        assert template["spec"]["serviceAccountName"] == "eventconsumer-spark"
        assert [container["name"] for container in template["spec"]["containers"]] == [name]
        assert template["metadata"]["labels"]["eventconsumer.io/consumer"] == "orders"
        assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "spark"
    assert driver["spec"]["automountServiceAccountToken"] is True
    assert executor["spec"]["automountServiceAccountToken"] is False


PLACED: dict[str, Any] = {
    "driver": {
        "nodeSelector": {"pool": "steady"},
        "priorityClassName": "drain",
        "labels": {"team": "orders"},
        "annotations": {"team": "all\nof it"},
    },
    "executor": {
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
        "affinity": AFFINITY,
        "labels": {"team": "spark"},
        "scratch": {"size": "50Gi", "storageClassName": "fast"},
    },
    "application": {
        "image": USER_IMAGE,
        "env": [
            {"name": "APP_LEVEL", "value": "debug"},
            {"name": "APP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}},
        ],
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "shop", "optional": True}}],
        "volumes": [
            {"mountPath": "/config/shop", "configMap": {"name": "shop", "items": [{"key": "a", "path": "b"}]}},
            {"mountPath": "/secrets/shop", "secret": {"secretName": "database"}},
        ],
    },
}
PLACING = dataclasses.replace(
    ALLOWING,
    taint_prefixes=("spot",),
    storage_classes=("fast",),
    spark_launchers=(Launcher.KUBEFLOW, Launcher.APACHE),
)


@BOTH
def test_executors_are_as_those_of_the_native_launcher(launcher: str) -> None:
    for spark in ({}, PLACED):
        _, executor = templates(made(launcher, settings=PLACING, **spark))
        native = executor_of(made("Native", settings=PLACING, mode="Executors", **spark))
        native["spec"]["containers"][0]["name"] = EXECUTOR_CONTAINER
        assert executor == {"metadata": native["metadata"], "spec": native["spec"]}
    given = PLACED["executor"]
    place = {name: given[name] for name in ("nodeSelector", "tolerations", "affinity")}
    assert place.items() <= executor["spec"].items()
    assert executor["metadata"]["labels"].items() >= given["labels"].items()


def test_driver_and_executors_have_what_the_program_gets() -> None:
    application = PLACED["application"]
    kubeflow, apache = (templates(made(launcher, settings=PLACING, **PLACED)) for launcher in ("Kubeflow", "Apache"))
    large, small = (made("Native", settings=PLACING, mode=mode, **PLACED) for mode in ("Executors", "Local"))
    native = (large["spec"]["template"], executor_of(large), small["spec"]["template"])
    for template in (*kubeflow, *apache, *native):
        (container,) = template["spec"]["containers"]
        own = [each for each in container["env"] if each["name"] in ("APP_LEVEL", "APP_PASSWORD")]
        assert own == application["env"]
        assert container["envFrom"] == application["envFrom"]
        mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"] if each.get("readOnly")}
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        assert volumes[mounted["/config/shop"]]["configMap"] == {
            "name": "shop",
            "items": [{"key": "a", "path": "b"}],
            "defaultMode": 0o440,
        }
        assert volumes[mounted["/secrets/shop"]]["secret"] == {"secretName": "database", "defaultMode": 0o440}


@BOTH
def test_drivers_have_the_place_the_labels_and_the_scratch_volume_of_the_native_launcher(launcher: str) -> None:
    spark = PLACED | {"driver": PLACED["driver"] | {"scratch": {"size": "2Gi"}}}
    driver, _ = templates(made(launcher, settings=PLACING, **spark))
    native = made("Native", settings=PLACING, mode="Executors", **spark)["spec"]["template"]
    assert driver["spec"]["nodeSelector"] == native["spec"]["nodeSelector"] == {"pool": "steady"}
    assert driver["spec"]["priorityClassName"] == native["spec"]["priorityClassName"] == "drain"
    assert driver["metadata"]["labels"] == native["metadata"]["labels"]
    assert driver["metadata"]["labels"]["team"] == "orders"
    assert driver["metadata"]["annotations"]["team"] == native["metadata"]["annotations"]["team"] == "all\nof it"
    (volume,) = [each for each in driver["spec"]["volumes"] if each["name"].startswith("spark-local-dir-")]
    assert volume in native["spec"]["volumes"]
    (container,), (other,) = driver["spec"]["containers"], native["spec"]["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert mount in other["volumeMounts"]
    # Spark sets SPARK_LOCAL_DIRS in the pods that it creates.
    assert {"name": "SPARK_LOCAL_DIRS", "value": mount["mountPath"]} in other["env"]
    assert "SPARK_LOCAL_DIRS" not in {each["name"] for each in container["env"]}


@BOTH
def test_the_number_of_executors_is_fixed_or_within_limits(launcher: str) -> None:
    def started(manifest: Manifest) -> int:
        spec = manifest["spec"]
        if launcher == "Kubeflow":
            return int(spec["executor"]["instances"])
        return int(spec["sparkConf"]["spark.executor.instances"])

    fixed = made(launcher, executor={"instances": 4})
    assert started(fixed) == 4 and "spark.dynamicAllocation.enabled" not in fixed["spec"]["sparkConf"]
    scaled = made(launcher, executor={"instances": 4, "minInstances": 2})
    assert started(scaled) == 2
    assert scaled["spec"]["sparkConf"]["spark.dynamicAllocation.maxExecutors"] == "4"


@BOTH
def test_the_kubelet_ends_the_driver_in_time(launcher: str) -> None:
    driver, _ = templates(made(launcher, timeoutSeconds=600))
    assert driver["spec"]["activeDeadlineSeconds"] == 600


@BOTH
def test_the_driver_gets_its_batch_and_its_credential_as_a_file(launcher: str) -> None:
    manifest = made(launcher)
    driver, executor = templates(manifest)
    (container,) = driver["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    told = BatchJob.model_validate_json(environment["EVENTCONSUMER_BATCH_JOB"] or "")
    assert (told.number, told.application, told.attempt, told.chain) == (1, NAME, 1, fleet().chain)
    assert (environment["EVENTCONSUMER_BATCH_MANIFEST"] or "").endswith("/_batches/0000000001.json")
    (secret,) = [volume["secret"] for volume in driver["spec"]["volumes"] if "secret" in volume]
    assert (secret["secretName"], secret["optional"]) == ("s", False)
    credential = told.sink.credential.connection_string_file
    assert credential is not None
    assert credential.rpartition("/")[0] in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not [volume for volume in executor["spec"]["volumes"] if "secret" in volume]


@BOTH
def test_workload_identity_is_asked_for_by_the_drivers_label(launcher: str) -> None:
    label = "azure.workload.identity/use"
    identity = {"storageAccountUrl": "https://shop.blob.core.windows.net", "authentication": IDENTITY}
    with_identity, _ = templates(made(launcher, sink=identity))
    without, _ = templates(made(launcher))
    assert with_identity["metadata"]["labels"][label] == "true"
    assert label not in without["metadata"]["labels"]
    assert [volume["name"] for volume in with_identity["spec"]["volumes"]] == ["tmp"]


def conf(launcher: str, **spark: Any) -> dict[str, str]:
    given: dict[str, str] = made(launcher, **spark)["spec"]["sparkConf"]
    return given


@BOTH
def test_the_users_properties_are_there_and_ours_win(launcher: str) -> None:
    application = {"conf": {"spark.sql.shuffle.partitions": "7"}}
    given = conf(launcher, application=application)
    assert given["spark.sql.shuffle.partitions"] == "7"
    assert given["spark.authenticate"] == given["spark.network.crypto.enabled"] == "true"
    assert given["spark.network.crypto.cipher"] == "AES/CTR/NoPadding"
    assert given["spark.ui.enabled"] == "false"


SIZES: dict[str, Any] = {
    "driver": {"cores": 2, "coreRequest": "250m", "memory": "2g", "cpuLimit": "1500m"},
    "executor": {"instances": 4, "cores": 3, "memory": "512m", "cpuLimit": "4"},
}


def test_sizes_for_kubeflow() -> None:
    spec = made("Kubeflow", **SIZES)["spec"]
    driver, executor = dict(spec["driver"]), dict(spec["executor"])
    for each in (driver, executor):
        del each["template"]
    assert driver == {
        "cores": 2,
        "coreRequest": "250m",
        "coreLimit": "1500m",
        "memory": "2g",
        "serviceAccount": "eventconsumer-spark",
    }
    assert executor == {"cores": 3, "coreRequest": "3", "coreLimit": "4", "memory": "512m", "instances": 4}


def test_sizes_and_labels_for_apache() -> None:
    given = conf("Apache", **SIZES)
    assert given["spark.driver.cores"] == "2"
    assert given["spark.driver.memory"] == "2g"
    assert given["spark.kubernetes.driver.request.cores"] == "250m"
    assert given["spark.executor.instances"] == "4"
    assert given["spark.executor.cores"] == "3"
    assert given["spark.executor.memory"] == "512m"
    assert given["spark.kubernetes.executor.request.cores"] == "3"
    assert [given[f"spark.kubernetes.{role}.limit.cores"] for role in ("driver", "executor")] == ["1500m", "4"]
    assert given["spark.kubernetes.container.image"] == "spark:1"
    for role in ("driver", "executor"):
        assert given[f"spark.kubernetes.{role}.label.eventconsumer.io/consumer"] == "orders"
        assert given[f"spark.kubernetes.{role}.label.eventconsumer.io/batch"] == "1"


PROGRAM = {"image": USER_IMAGE, "mainFile": "local:///app/mine.py", "arguments": ["--top", "--conf"]}


def test_a_kubeflow_application_runs_once_and_goes_in_the_end() -> None:
    spec = made("Kubeflow", application=PROGRAM, history={"ttlSeconds": 1000})["spec"]
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert (spec["mainApplicationFile"], spec["arguments"]) == ("local:///app/mine.py", ["--top", "--conf"])
    assert spec["restartPolicy"] == {"type": "Never"}
    assert spec["timeToLiveSeconds"] >= 1000
    assert (spec["image"], spec["imagePullPolicy"]) == (USER_IMAGE, "IfNotPresent")


def test_an_apache_application_runs_once_and_goes_in_the_end() -> None:
    spec = made("Apache", application=PROGRAM, history={"ttlSeconds": 1000})["spec"]
    assert spec["deploymentMode"] == "ClusterMode"
    assert (spec["pyFiles"], spec["driverArgs"]) == ("local:///app/mine.py", ["--top", "--conf"])
    assert spec["mainClass"].endswith("PythonRunner")
    tolerations = spec["applicationTolerations"]
    assert tolerations["restartConfig"] == {"restartPolicy": "Never"}
    assert tolerations["resourceRetainPolicy"] == "Always"  # for the logs, until the application goes
    assert tolerations["ttlAfterStopMillis"] >= 1_000_000


def test_the_version_is_that_of_the_image() -> None:
    pins = (ROOT / "requirements/spark.txt").read_text()
    assert re.search(r"^pyspark==(\S+)", pins, re.MULTILINE)[1] == SPARK_VERSION  # type: ignore[index]
    assert made("Kubeflow")["spec"]["sparkVersion"] == SPARK_VERSION
    assert made("Apache")["spec"]["runtimeVersions"] == {"sparkVersion": SPARK_VERSION}


@BOTH
def test_a_launcher_that_the_administrator_has_not_enabled_is_a_mistake_with_its_remedy(launcher: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.spark\.launcher: {launcher} is not enabled.*sparkLaunchers"):
        plan(launcher, settings=SETTINGS)
    other = Launcher.APACHE if launcher == "Kubeflow" else Launcher.KUBEFLOW
    with pytest.raises(SpecError):
        plan(launcher, settings=dataclasses.replace(SETTINGS, spark_launchers=(other,)))


def driver_pod(name: str, application: str, owner: str = UID, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "labels": {"sparkoperator.k8s.io/app-name": application},
            "ownerReferences": [{"kind": "X", "name": "x", "uid": owner, "controller": True}],
            **metadata,
        },
    }


def test_the_driver_for_kubeflow_is_owned_by_the_resource_for_that_operator_gives_it_no_owner() -> None:
    manifest = made("Kubeflow")
    driver, executor = templates(manifest)
    assert driver["metadata"]["ownerReferences"] == manifest["metadata"]["ownerReferences"]
    assert "ownerReferences" not in executor["metadata"]  # Spark lets the driver own them
    apache_driver, _ = templates(made("Apache"))
    assert "ownerReferences" not in apache_driver["metadata"]  # nor here: that operator does


def test_drivers_without_their_application_go() -> None:
    live = made("Kubeflow") | {"status": {}}
    live["metadata"]["uid"] = "live"
    mine, orphan = driver_pod("a", NAME), driver_pod("b", "gone")
    others = (driver_pod("c", "gone", owner="job"), driver_pod("d", "gone", deletionTimestamp="now"))
    spec = SPEC | {"spark": SPARK["spark"] | {"launcher": "Kubeflow"}}
    world = observed(spec, applications=(live,), drivers=(mine, orphan, *others))
    assert make_plan(world, ENABLED).deleted == (orphan,)
    # Where the launcher is not enabled its applications are not seen, and nothing can be said of their drivers.
    off = observed(SPEC, drivers=(mine, orphan))
    assert make_plan(off, SETTINGS).deleted == ()


def test_flags() -> None:
    required = ["--processor-image", "p", "--spark-image", "s", "--namespace", "shop"]
    flags = ["--spark-launcher", "Apache", "--spark-launcher", "Kubeflow", "--spark-launcher", "Apache"]
    assert parse_settings([*required, *flags], {}).spark_launchers == (Launcher.APACHE, Launcher.KUBEFLOW)
    assert parse_settings(required, {}).spark_launchers == ()
    for wrong in ("Native", "kubeflow"):
        with pytest.raises(SystemExit):
            parse_settings([*required, "--spark-launcher", wrong], {})
