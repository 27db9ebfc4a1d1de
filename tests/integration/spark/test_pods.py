"""The pods that Spark itself makes of the operator's templates and properties: its own builders, called in a JVM."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from pyspark.java_gateway import launch_gateway

from tests.unit.api.test_expansion import expand
from tests.unit.operator.spark.test_plan_spark import confs, executor_of
from tests.unit.operator.spark.test_sparkapplications import PLACED, PLACING, made, templates

MODULE = "MODULE$"
# What the entrypoint sets in a driver's pod, and spark-submit where it makes that pod.
GIVEN = {
    "spark.app.name": "orders",
    "spark.master": "k8s://https://kubernetes.default.svc",
    "spark.kubernetes.namespace": "shop",
    "spark.kubernetes.executor.disableConfigMap": "true",
}
SCRATCH = {"driver": PLACED["driver"] | {"scratch": {"size": "2Gi"}}}


@pytest.fixture(scope="module")
def gateway(jars: str) -> Iterator[JavaGateway]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(Path(jars).parent))
        found = launch_gateway()
    yield found
    found.shutdown()
    found.proc.stdin.close()  # the JVM ends
    found.proc.wait()


class Builders:
    """Spark's builders of pods.

    Args:
        gateway: A JVM with Spark's classes.
        conf: Spark properties.
    """

    def __init__(self, gateway: JavaGateway, conf: dict[str, str]) -> None:
        self.jvm = gateway.jvm
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

    def driver(self, arguments: Sequence[str] = ()) -> dict[str, Any]:
        """The pod of a driver in cluster mode, with the arguments of its program."""
        k8s = self.jvm.org.apache.spark.deploy.k8s
        program = k8s.submit.PythonMainAppResource("local:///app/eventconsumer_spark/job.py")
        runner = "org.apache.spark.deploy.PythonRunner"
        conf = k8s.KubernetesConf.createDriverConf(
            self.conf, "app", program, runner, self._strings(arguments), self.none
        )
        return self._pod(k8s.submit.KubernetesDriverBuilder().buildFromFeatures(conf, self.client).pod())

    def _strings(self, texts: Sequence[str]) -> Any:
        string = self.jvm.java.lang.Class.forName("java.lang.String")
        array = self.jvm.java.lang.reflect.Array.newInstance(string, len(texts))
        for number, text in enumerate(texts):
            array[number] = text
        return array

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
    pod = Builders(gateway, spec["sparkConf"] | own).driver(spec.get("arguments") or spec["driverArgs"])
    (container,) = pod["spec"]["containers"]
    got = [expand(each.encode(), {b"POD_NAME": b"orders"}, runes=True).decode() for each in container["args"]]
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
