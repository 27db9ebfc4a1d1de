"""The image's entrypoint: what it refuses, and the commands it becomes; tini and java are stand-ins that print."""

import os
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "spark/entrypoint.sh"
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
    assert lines[:3] == ["-s", "--", "/spark/bin/spark-submit"]
    assert lines[-3:] == program
    settings = confs(lines[:-3])
    assert settings["spark.executor.memory"] == "1g"
    assert settings["spark.driver.port"] == "7078"  # The caller cannot break what holds the pod together.
    assert settings["spark.kubernetes.driver.pod.name"] == "orders-b1-x"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.7"
    assert settings["spark.kubernetes.namespace"] == "shop"
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert lines[lines.index("--deploy-mode") + 1] == "client"


def test_executors_of_a_driver_with_workload_identity_have_it_too(home: Path) -> None:
    label = "spark.kubernetes.executor.label.azure.workload.identity/use"
    with_token = run(home, "driver", "local:///app/job.py", AZURE_FEDERATED_TOKEN_FILE="/token", **POD)
    without = run(home, "driver", "local:///app/job.py", **POD)
    assert confs(with_token.stdout.splitlines())[label] == "true"
    assert label not in confs(without.stdout.splitlines())


@pytest.mark.parametrize("missing", sorted(POD))
def test_driver_says_what_the_downward_api_must_give(home: Path, missing: str) -> None:
    environment = {name: value for name, value in POD.items() if name != missing}
    ended = run(home, "driver", "local:///app/job.py", **environment)
    assert ended.returncode == 2
    assert f"{missing} is not set" in ended.stderr


def test_driver_without_a_program(home: Path) -> None:
    ended = run(home, "driver", "--conf", "a=b", **POD)
    assert ended.returncode == 2
    assert "needs a program" in ended.stderr


def test_executor_passes_java_options_in_order_and_whole(home: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{i}": f"-Dn={i} with spaces" for i in range(11)}
    spark = {
        name: f"<{name}>"
        for name in (
            "SPARK_EXECUTOR_MEMORY",
            "SPARK_DRIVER_URL",
            "SPARK_EXECUTOR_ID",
            "SPARK_EXECUTOR_CORES",
            "SPARK_APPLICATION_ID",
            "SPARK_EXECUTOR_POD_IP",
            "SPARK_RESOURCE_PROFILE_ID",
            "SPARK_EXECUTOR_POD_NAME",
        )
    }
    ended = run(home, "executor", **options, **spark)
    lines = ended.stdout.splitlines()
    assert lines[:3] == ["-s", "--", "java"]
    assert lines[3:14] == list(options.values())
    assert lines[14:16] == ["-Xms<SPARK_EXECUTOR_MEMORY>", "-Xmx<SPARK_EXECUTOR_MEMORY>"]
    assert lines[lines.index("--driver-url") + 1] == "<SPARK_DRIVER_URL>"
    assert lines[lines.index("--podName") + 1] == "<SPARK_EXECUTOR_POD_NAME>"


def test_unknown_role(home: Path) -> None:
    ended = run(home, "bash")
    assert ended.returncode == 2
    assert "driver or executor, not 'bash'" in ended.stderr
