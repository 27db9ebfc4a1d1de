"""The pods that Spark itself makes of the operator's templates and properties: its own builders, called in a JVM."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import KUBEFLOW_APPLICATION, kind_of
from eventconsumer_operator.plan import Plan, make_plan
from tests.support.expansion import expand
from tests.unit.operator.markers import (
    MARKS,
    WORLDS,
    LauncherWorld,
    allowed,
    keys,
    manifests,
    observe,
    places,
    planned,
    spec_with,
)
from tests.unit.operator.spark.test_plan_spark import confs, executor_of
from tests.unit.operator.spark.test_sparkapplications import PLACED, PLACING, made, templates
from tests.unit.operator.test_markers import ALL, form_problem

MODULE = "MODULE$"
# What the entrypoint sets in a driver's pod, and spark-submit where it makes that pod.
GIVEN = {
    "spark.app.name": "orders",
    "spark.master": "k8s://https://kubernetes.default.svc",
    "spark.kubernetes.namespace": "shop",
    "spark.kubernetes.executor.disableConfigMap": "true",
}
SCRATCH = {"driver": PLACED["driver"] | {"scratch": {"size": "2Gi"}}}


class Builders:
    """Spark's builders of pods.

    Args:
        gateway: A JVM with Spark's classes.
        conf: Spark properties.
    """

    def __init__(self, gateway: JavaGateway, conf: dict[str, str]) -> None:
        self.gateway, self.jvm = gateway, gateway.jvm
        self.conf = self.jvm.org.apache.spark.SparkConf(False)
        for name, value in (GIVEN | conf).items():
            self.conf.set(name, value)
        self.none = getattr(getattr(self.jvm.scala, "None$"), MODULE)
        fabric8 = self.jvm.io.fabric8.kubernetes.client  # it only reads the template: nothing is called
        # Not the configuration of the user, which a builder without an argument reads.
        settings = fabric8.ConfigBuilder(fabric8.Config.empty()).withMasterUrl("http://127.0.0.1:1").build()
        self.client = fabric8.KubernetesClientBuilder().withConfig(settings).build()

    def executor(self) -> dict[str, Any]:
        """The pod of an executor."""
        spark = self.jvm.org.apache.spark
        profile = getattr(getattr(spark.resource, "ResourceProfile$"), MODULE).getOrCreateDefaultProfile(self.conf)
        secret = getattr(getattr(getattr(spark, "SecurityManager$"), MODULE), "$lessinit$greater$default$3")()
        security = spark.SecurityManager(self.conf, self.none, secret)
        conf = spark.deploy.k8s.KubernetesConf.createExecutorConf(self.conf, "1", "app", self.none, 0)
        builder = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
        return self._pod(builder.buildFromFeatures(conf, security, self.client, profile).pod())

    def driver(
        self, program: str = "local:///app/eventconsumer_spark/job.py", arguments: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The pod of a driver in cluster mode."""
        k8s = self.jvm.org.apache.spark.deploy.k8s
        resource, runner = k8s.submit.PythonMainAppResource(program), "org.apache.spark.deploy.PythonRunner"
        given = self._strings(arguments)
        conf = k8s.KubernetesConf.createDriverConf(self.conf, "app", resource, runner, given, self.none)
        return self._pod(k8s.submit.KubernetesDriverBuilder().buildFromFeatures(conf, self.client).pod())

    def _strings(self, values: Sequence[str]) -> Any:
        found = self.gateway.new_array(self.jvm.java.lang.String, len(values))
        for place, value in enumerate(values):
            found[place] = value
        return found

    def _pod(self, pod: Any) -> dict[str, Any]:
        """The pod with its container."""
        to_json = self.jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson
        made: dict[str, Any] = json.loads(to_json(pod.pod()))
        made["spec"]["containers"] = [json.loads(to_json(pod.container()))]
        return made


def test_executors_of_the_native_launcher(gateway: JavaGateway, tmp_path: Path) -> None:
    job = made("Native", settings=PLACING, mode="Executors", **PLACED)
    template, file = executor_of(job), tmp_path / "pod.json"
    file.write_text(json.dumps(template))
    own = {
        "spark.driver.host": "10.0.0.1",
        "spark.driver.port": "7078",
        "spark.kubernetes.executor.podTemplateFile": str(file),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
    }
    check(Builders(gateway, confs(job) | own).executor(), template)


@pytest.mark.parametrize("launcher", ["Kubeflow", "Apache"])
def test_drivers_of_the_other_launchers(launcher: str, gateway: JavaGateway, tmp_path: Path) -> None:
    application = made(launcher, settings=PLACING, **(PLACED | SCRATCH))
    template, _ = templates(application)
    file = tmp_path / "pod.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **template}))
    own = {
        "spark.kubernetes.driver.podTemplateFile": str(file),
        "spark.kubernetes.driver.podTemplateContainerName": template["spec"]["containers"][0]["name"],
        "spark.kubernetes.container.image": "spark:1",
    }
    check(Builders(gateway, application["spec"]["sparkConf"] | own).driver(), template)


@pytest.mark.parametrize("launcher", ["Kubeflow", "Apache"])
def test_a_program_gets_the_arguments_that_the_user_wrote(launcher: str, gateway: JavaGateway) -> None:
    """Kubernetes expands references in the arguments of a container, and Spark writes them there as they are."""
    texts = ["$(POD_NAME)", "$$(POD_NAME)", "a $5 $", "${HOME}", "--conf", "é$é"]
    spec = made(launcher, application={"arguments": texts})["spec"]
    own = {"spark.kubernetes.container.image": "spark:1", "spark.kubernetes.file.upload.path": "local:///tmp"}
    pod = Builders(gateway, spec["sparkConf"] | own).driver(arguments=spec.get("arguments") or spec["driverArgs"])
    (container,) = pod["spec"]["containers"]
    got = [expand(each, {"POD_NAME": "orders"}) for each in container["args"]]
    assert got[-len(texts) :] == texts


def check(pod: dict[str, Any], template: dict[str, Any]) -> None:
    """The pod has what the template has, and its scratch volume is Spark's only local directory."""
    assert template["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert template["metadata"].get("annotations", {}).items() <= pod["metadata"].get("annotations", {}).items()
    (container,), (wanted,) = pod["spec"].pop("containers"), template["spec"].pop("containers")
    volumes = template["spec"].pop("volumes")
    assert [each for each in pod["spec"]["volumes"] if each in volumes] == volumes
    assert template["spec"].items() <= pod["spec"].items()
    assert container["securityContext"] == wanted["securityContext"]
    for kind, values in wanted["resources"].items():
        assert values.items() <= container["resources"][kind].items()
    assert all(mount in container["volumeMounts"] for mount in wanted["volumeMounts"])
    assert [each["value"] for each in container["env"] if each["name"] == "SPARK_LOCAL_DIRS"] == ["/scratch"]
    assert container["envFrom"] == wanted["envFrom"]
    assert [each for each in container["env"] if each in wanted["env"]] == wanted["env"]


# --- texts of users --------------------------------------------------------------------------------------------------


def parsed(gateway: JavaGateway, arguments: list[str]) -> tuple[dict[str, str], str, list[str]]:
    """What spark-submit makes of its arguments: properties, the program, and the program's arguments."""
    jvm = gateway.jvm
    between = jvm.scala.jdk.javaapi.CollectionConverters
    given = jvm.java.util.ArrayList()
    for each in arguments:
        given.add(each)
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), MODULE).empty()
    made = jvm.org.apache.spark.deploy.SparkSubmitArguments(between.asScala(given).toSeq(), nothing)
    return dict(between.asJava(made.sparkProperties())), made.primaryResource(), list(between.asJava(made.childArgs()))


def is_driver(manifest: Manifest) -> bool:
    """Whether a manifest is a driver that makes executors, or has another operator make them."""
    if manifest["kind"] == "SparkApplication":
        return True
    metadata = manifest["spec"]["template"]["metadata"] if manifest["kind"] == "Job" else {}
    return "eventconsumer.io/executor" in metadata.get("annotations", {})


def submission(application: Manifest) -> list[str]:
    """The arguments with which the operator of another launcher calls spark-submit, or as if it did.

    Sources: `buildSparkSubmitArgs` in internal/controller/sparkapplication/submission.go of kubeflow/spark-operator
    2.3; `SparkAppSubmissionWorker` of apache/spark-kubernetes-operator, which calls Spark's builders itself.
    """
    spec = application["spec"]
    conf = dict(spec["sparkConf"])
    if kind_of(application) == KUBEFLOW_APPLICATION:
        for role in ("driver", "executor"):
            conf |= {
                f"spark.kubernetes.{role}.container.image": spec["image"],
                f"spark.{role}.cores": str(spec[role]["cores"]),
                f"spark.kubernetes.{role}.request.cores": spec[role]["coreRequest"],
                f"spark.{role}.memory": spec[role]["memory"],
            }
        conf |= {"spark.kubernetes.container.image": spec["image"]}
        program, arguments = spec["mainApplicationFile"], spec["arguments"]
    else:
        program, arguments = spec["pyFiles"], spec["driverArgs"]
    return [*(part for pair in conf.items() for part in ("--conf", "=".join(pair))), program, *arguments]


def pods_of(gateway: JavaGateway, manifest: Manifest, folder: Path) -> Iterator[Manifest]:
    """The pods that Spark makes for a driver: its own in cluster mode, and an executor."""
    if manifest["kind"] == "Job":
        given = [expand(each) for each in manifest["spec"]["template"]["spec"]["containers"][0]["args"][1:]]
        found: dict[str, Any] = {"executor": executor_of(manifest)}
    else:
        given = submission(manifest)
        found = dict(zip(("driver", "executor"), templates(manifest), strict=True))
    conf, program, arguments = parsed(gateway, ["--master", GIVEN["spark.master"], *given])
    start = len(given) - len(arguments) - 1
    assert (given[start:], given[:start:2]) == ([program, *arguments], ["--conf"] * (start // 2))
    assert conf == dict(each.split("=", 1) for each in given[1:start:2])
    for role, template in found.items():
        (file := folder / f"{role}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **template}))
        conf[f"spark.kubernetes.{role}.podTemplateFile"] = str(file)
        conf[f"spark.kubernetes.{role}.podTemplateContainerName"] = template["spec"]["containers"][0]["name"]
    if "driver" in found:
        yield Builders(gateway, conf).driver(program, arguments) | {"kind": "SparkPod"}
    # As in a running driver.
    running = {"spark.driver.host": "10.0.0.1", "spark.driver.port": "7078", "spark.authenticate.secret": "s"}
    yield Builders(gateway, conf | running).executor() | {"kind": "SparkPod"}


LISTS = ("priority_classes", "storage_classes", "schema_registries", "egress_namespaces")


def everything(world: LauncherWorld, *, at_end: bool) -> tuple[dict[str, Any], Plan]:
    """A spec with a hostile value in each field that allows one beside the others, and its plan."""
    spec = world.spec(ALL[0], ALL[0].seed[0], "")
    settings = world.settings(ALL[0], "")
    plan = make_plan(observe(spec), settings)
    for field in ALL if at_end else reversed(ALL):
        for key in keys(field):
            values = [field.grown(lambda _: True, at_end=at_end), field.seed[0]]
            if field.steps[-1] != "{}" and not allowed(world, field, key)(values[0]):
                values.insert(1, field.grown(allowed(world, field, key), at_end=at_end))
            for value in values:
                own = world.settings(field, value)
                wider = replace(settings, **{name: getattr(settings, name) + getattr(own, name) for name in LISTS})
                changed = spec_with(field, value, key, spec)
                try:
                    plan = make_plan(observe(changed), wider)
                except SpecError:
                    continue
                spec, settings = changed, wider
                break
    return spec, plan


def found_in(pods: Iterable[Manifest]) -> list[str]:
    """What is wrong in pods that Spark made."""
    texts = (place for pod in pods for mark in MARKS for place in places(pod, mark))
    return sorted(set(filter(None, map(form_problem, texts))))


@pytest.mark.parametrize("at_end", [True, False], ids=["at the end", "at the start"])
@pytest.mark.parametrize("world", WORLDS[1:], ids=lambda world: world.name)
def test_texts_of_users_stay_text_in_pods_of_spark(
    world: LauncherWorld, gateway: JavaGateway, tmp_path: Path, *, at_end: bool
) -> None:
    spec, plan = everything(world, at_end=at_end)
    for manifest in filter(is_driver, manifests(plan)):
        pods = list(pods_of(gateway, manifest, tmp_path))
        assert all(any(True for mark in MARKS for _ in places(pod, mark)) for pod in pods)
        assert not (found := found_in(pods)), "\n".join(each[:400] for each in found)
        for pod in pods[:-1]:
            (container,) = pod["spec"]["containers"]
            arguments = spec["spark"]["application"]["arguments"]
            assert [expand(each) for each in container["args"]][-len(arguments) :] == arguments


@pytest.mark.parametrize("world", WORLDS[1:], ids=lambda world: world.name)
def test_a_reference_in_a_property_is_found_in_executors(
    world: LauncherWorld, gateway: JavaGateway, tmp_path: Path
) -> None:
    """So the property above looks at what Spark copies from properties."""
    field = next(each for each in ALL if each.path == "spec.spark.application.conf.*")
    value, mark = field.seed
    plan = planned(world, field, value, "spark.network.timeout")
    for manifest in filter(is_driver, manifests(plan)):
        spoiled = json.loads(
            json.dumps(manifest).replace(mark, f"$$(PAYROLL){mark}" if world.native else f"$(PAYROLL){mark}")
        )
        found = found_in(pods_of(gateway, spoiled, tmp_path))
        assert any("SPARK_JAVA_OPT" in each and "looks up PAYROLL" in each for each in found), found
