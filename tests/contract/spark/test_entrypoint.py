"""The image's entrypoint: what it refuses, and the commands it becomes; tini and java are stand-ins that print."""

import os
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "spark/entrypoint.sh"
EXECUTOR = (
    "SPARK_EXECUTOR_MEMORY",
    "SPARK_DRIVER_URL",
    "SPARK_EXECUTOR_ID",
    "SPARK_EXECUTOR_CORES",
    "SPARK_APPLICATION_ID",
    "SPARK_EXECUTOR_POD_IP",
    "SPARK_RESOURCE_PROFILE_ID",
    "SPARK_EXECUTOR_POD_NAME",
)
SUBMITTED = (
    "--properties-file",
    "/opt/spark/conf/spark.properties",
    "--class",
    "org.apache.spark.deploy.PythonRunner",
    "local:///app/job.py",
    "--conf",
    "its own",
)
CONFIGURATION = "/opt/spark/defaults/log4j2.properties"
# Of the operator, the webhook of workload identity, the kubelet, the image, and a program of the user.
PASSED = (
    *EXECUTOR,
    "SPARK_DRIVER_BIND_ADDRESS",
    "SPARK_LOCAL_DIRS",
    "SPARK_USER",
    "_SPARK_AUTH_SECRET",
    "SPARK_JAVA_OPT_0",
    "EVENTCONSUMER_BATCH_JOB",
    "AZURE_CLIENT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_PORT_443_TCP_ADDR",
    "MALLOC_ARENA_MAX",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "LANG",
    "PYSPARK_PYTHON",
    "APP_LEVEL",
    "REPORT_LEVEL",
    "HOME",
)
DROPPED = (
    "LOG4J_CONFIGURATION_FILE",
    "LOG4J_SCRIPT_ENABLE_LANGUAGES",
    "log4j2.configurationFile",
    "KUBECONFIG",
    "KUBERNETES_MASTER",
    "KUBERNETES_AUTH_TRYKUBECONFIG",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "JAVA_HOME",
    "CLASSPATH",
    "HADOOP_CONF_DIR",
    "SPARK_SUBMIT_OPTS",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_PREPEND_CLASSES",
    "SPARK_ENV_LOADED",
    "SPARK_DIST_CLASSPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "LD_PRELOAD_PATH",
    "BASH_ENV",
    "ENV",
    "MALLOC_TRACE",
    "BASH_FUNC_java%%",
    "OPENSSL_CONF",
    "TINI_VERBOSITY",
)
POD = {"POD_NAME": "orders-b1-x", "POD_IP": "10.0.0.7", "POD_NAMESPACE": "shop"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A PATH where tini and java print their arguments, one a line."""
    for name in ("tini", "java"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        program.chmod(0o755)
    return tmp_path


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{home}:{os.environ['PATH']}"
    return subprocess.run(
        [ENTRYPOINT, *arguments],
        env={"PATH": path, "SPARK_HOME": "/spark", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def confs(lines: list[str]) -> dict[str, str]:
    """The settings that spark-submit would see; of equals the later one."""
    return dict(lines[i + 1].split("=", 1) for i, word in enumerate(lines) if word == "--conf")


def test_driver_is_a_client_mode_submission_of_its_own_pod(home: Path) -> None:
    program = ["local:///app/job.py", "--conf", "its own"]
    ended = run(home, "driver", "--conf", "spark.executor.memory=1g", "--conf", "spark.driver.port=1", *program, **POD)
    lines = ended.stdout.splitlines()
    assert lines[:4] == ["-s", "-g", "--", "/spark/bin/spark-submit"]
    assert lines[-3:] == program
    settings = confs(lines[:-3])
    assert settings["spark.executor.memory"] == "1g"
    assert settings["spark.driver.port"] == "7078"  # The caller cannot break what holds the pod together.
    assert settings["spark.kubernetes.driver.pod.name"] == "orders-b1-x"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.7"
    assert settings["spark.kubernetes.namespace"] == "shop"
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert lines[lines.index("--deploy-mode") + 1] == "client"


def test_a_local_driver_needs_nothing_of_kubernetes_and_listens_to_itself_only(home: Path) -> None:
    conf = ["--conf", "spark.driver.memory=2g", "--conf", "spark.driver.host=0.0.0.0"]
    ended = run(home, "driver", "--local", "3", *conf, "local:///app/job.py", "--local", "5")
    lines = ended.stdout.splitlines()
    assert lines[lines.index("--master") + 1] == "local[3]"
    assert lines[-3:] == ["local:///app/job.py", "--local", "5"]
    settings = confs(lines)
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert not any(name.startswith("spark.kubernetes.") for name in settings)


@pytest.mark.parametrize("submitted", [False, True])
def test_executors_of_a_driver_with_workload_identity_have_it_too(home: Path, submitted: bool) -> None:
    label = "spark.kubernetes.executor.label.azure.workload.identity/use"
    arguments = SUBMITTED if submitted else ("local:///app/job.py",)
    environment = {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"} if submitted else POD
    with_token = run(home, "driver", *arguments, AZURE_FEDERATED_TOKEN_FILE="/token", **environment)
    without = run(home, "driver", *arguments, **environment)
    assert confs(with_token.stdout.splitlines()[: -len(arguments)])[label] == "true"
    assert label not in confs(without.stdout.splitlines()[: -len(arguments)])


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (("driver", "--local", "0", "local:///app/job.py"), POD, "needs a number"),
        (("driver", "--local", "*", "local:///app/job.py"), POD, "needs a number"),
        (("driver", "--local", "", "local:///app/job.py"), POD, "needs a number"),
        (("driver", "--local", "2] --x", "local:///app/job.py"), POD, "needs a number"),
        (("driver", "local:///app/job.py"), POD | {"POD_NAME": ""}, "POD_NAME is not set"),
        (("driver", "local:///app/job.py"), POD | {"POD_IP": ""}, "POD_IP is not set"),
        (("driver", "local:///app/job.py"), POD | {"POD_NAMESPACE": ""}, "POD_NAMESPACE is not set"),
        (("driver", "--conf", "a=b"), POD, "needs a program"),
        (("driver", *SUBMITTED), {}, "SPARK_DRIVER_BIND_ADDRESS is not set"),
        (("bash",), {}, "driver or executor, not 'bash'"),
    ],
)
def test_a_call_that_lacks_something_is_refused(
    home: Path, arguments: tuple[str, ...], environment: dict[str, str], says: str
) -> None:
    ended = run(home, *arguments, **{name: value for name, value in environment.items() if value})
    # The shell itself ends with 1 where a variable is required.
    assert ended.returncode == (1 if "BIND_ADDRESS" in says else 2)
    assert says in ended.stderr


def test_driver_of_a_submission_in_cluster_mode_keeps_its_properties_and_our_defaults(home: Path) -> None:
    ended = run(home, "driver", *SUBMITTED, SPARK_DRIVER_BIND_ADDRESS="10.0.0.7", SPARK_CONF_DIR="/opt/spark/conf")
    lines = ended.stdout.splitlines()
    assert lines[:4] == ["-s", "-g", "--", "/spark/bin/spark-submit"]
    assert lines[-7:] == list(SUBMITTED)
    own = lines[4:-7]
    assert own[own.index("--deploy-mode") + 1] == "client"
    assert "--load-spark-defaults" in own  # else the properties file hides them
    assert "--master" not in own
    settings = confs(own)
    assert settings["spark.driver.bindAddress"] == "10.0.0.7"
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.cipher"] == "AES/CTR/NoPadding"
    assert settings["spark.kubernetes.executor.disableConfigMap"] == "true"
    assert "spark.kubernetes.driver.pod.name" not in settings, "Spark has said that in its properties"


@pytest.mark.parametrize("arguments", [("driver", "local:///app/job.py"), ("driver", *SUBMITTED), ("executor",)])
def test_configuration_is_the_images_even_where_spark_mounts_its_own(home: Path, arguments: tuple[str, ...]) -> None:
    for name in ("tini", "java"):
        (home / name).write_text('#!/bin/sh\necho "$SPARK_CONF_DIR" "$@"\n')
    spark = dict.fromkeys(EXECUTOR, "1") | {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    ended = run(home, *arguments, **POD, **spark, SPARK_CONF_DIR="/opt/spark/conf")
    assert ended.stdout.startswith("/opt/spark/defaults ")
    assert "/opt/spark/conf:" not in ended.stdout
    dockerfile = (ENTRYPOINT.parent / "Dockerfile").read_text()
    assert "COPY spark/conf /opt/spark/defaults" in dockerfile


def test_executor_passes_java_options_in_order_and_whole(home: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{i}": f"-Dn={i} with spaces" for i in range(11)}
    spark = {name: f"<{name}>" for name in EXECUTOR}
    ended = run(home, "executor", **options, **spark)
    lines = ended.stdout.splitlines()
    assert lines[:3] == ["-s", "--", "java"]
    assert lines[3:14] == list(options.values())
    memory = lines.index("-Xms<SPARK_EXECUTOR_MEMORY>")
    assert lines[memory + 1] == "-Xmx<SPARK_EXECUTOR_MEMORY>"
    # Of equal properties Java takes the last one.
    assert f"-Dlog4j2.configurationFile=file://{CONFIGURATION}" in lines[14:memory]
    assert {"-Dlog4j2.scriptEnableLanguages=", "-Dkubernetes.auth.tryKubeConfig=false"} <= set(lines[14:memory])
    assert lines[lines.index("--driver-url") + 1] == "<SPARK_DRIVER_URL>"
    assert lines[lines.index("--podName") + 1] == "<SPARK_EXECUTOR_POD_NAME>"


@pytest.mark.parametrize(
    "words", [("driver", "--local", "2", "local:///app/job.py"), ("executor",)], ids=["driver", "executor"]
)
def test_no_core_dumps(home: Path, words: tuple[str, ...]) -> None:
    for name in ("tini", "java"):
        (home / name).write_text("#!/bin/bash\nulimit -S -c; ulimit -H -c\n")
    raise_limit = 'ulimit -S -c "$(ulimit -H -c)" && exec "$@"'
    command = ["bash", "-c", raise_limit, "bash", str(ENTRYPOINT), *words]
    environment = {"PATH": f"{home}:{os.environ['PATH']}", "SPARK_HOME": "/spark"} | dict.fromkeys(EXECUTOR, "x")
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "0\n0\n"


@pytest.mark.parametrize(
    "words", [("driver", "--local", "2", "local:///app/job.py"), ("driver", *SUBMITTED), ("executor",)]
)
def test_variables_pass_unless_a_program_of_the_image_reads_them(home: Path, words: tuple[str, ...]) -> None:
    (home / "tini").write_text("#!/bin/sh\nexec env -0\n")
    given = dict.fromkeys(PASSED, "a value\nof two lines") | dict.fromkeys(DROPPED, "x")
    ended = run(home, *words, **given)
    assert ended.returncode == 0, ended.stderr
    found = dict(entry.split("=", 1) for entry in ended.stdout.split("\0") if entry)
    assert {name: found.get(name) for name in PASSED} == {name: given[name] for name in PASSED}
    own = {"PATH", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS"}
    assert found.keys() - set(PASSED) - {"PWD", "SHLVL", "_"} == own
    assert f"-Dlog4j2.configurationFile=file://{CONFIGURATION}" in found["SPARK_SUBMIT_OPTS"].split()
    named = ended.stderr.partition("ignored: ")[2].split()
    assert sorted(named) == sorted(name.replace("%", "?") for name in DROPPED)
