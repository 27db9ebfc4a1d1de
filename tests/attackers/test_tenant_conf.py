"""A user with the role eventconsumer-editor, by texts of the spec: properties, arguments, images and paths."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from azure.storage.blob import AccountSasPermissions, BlobServiceClient, ResourceTypes, Services, generate_account_sas
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_api.spec.spark_conf import ALLOWED, Form
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.spark import conf as operators_conf
from eventconsumer_operator.spark import native, sparkapplications
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.contract.operator.conftest import Cluster, start_cluster
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.expansion import expand
from tests.support.fakes.kubernetes import event_consumer
from tests.unit.operator.worlds import SETTINGS, SPARK, SPEC, batch, fleet, observed, report, spec_with

PAYROLL = "the account of the payroll: 4711"
"""Value of a Secret that the user may not read, and may give to a program."""
IMAGE = "registry.example/spark/mine:1"
ENV = {"name": "APP_PAYROLL", "valueFrom": {"secretKeyRef": {"name": "payroll", "key": "account"}}}
ADMINISTRATOR = dataclasses.replace(
    SETTINGS,
    spark_image_prefixes=("registry.example/spark/",),
    spark_launchers=(Launcher.KUBEFLOW, Launcher.APACHE),
)
REFERENCE = "$(APP_PAYROLL)"
Apply = Callable[[dict[str, Any]], str]
"""What the API server says about a spec; empty: it stores it."""


@pytest.fixture(scope="module")
def apply(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apply]:
    """A real API server with the CRD."""
    running = start_cluster(tmp_path_factory.mktemp("apiserver"))
    cluster: Cluster = next(running)
    namespace = cluster.namespace()
    yield lambda spec: cluster.apply(event_consumer("orders", spec, namespace), dry_run=True)
    running.close()


def stored(_: dict[str, Any]) -> str:
    """An API server without the rules of the CRD, such as one with the CRD of an older version."""
    return ""


def program(launcher: str = "Native", **application: Any) -> dict[str, Any]:
    """A spec with the user's own program."""
    spark = {"launcher": launcher, "application": {"image": IMAGE, "env": [ENV]} | application}
    return SPEC | {"spark": SPARK["spark"] | spark}


def started(spec: dict[str, Any], settings: Any = ADMINISTRATOR) -> Manifest:
    """The application that the operator creates.

    Raises:
        SpecError: It refuses the spec.
    """
    made = make_plan(observed(spec, reports={"orders-host-0": report(fleet=fleet(batch=batch()))}), settings)
    assert made.spark.started is not None
    return made.spark.started


def arguments_of(application: Manifest) -> list[str]:
    """Arguments of the driver's container.

    A Job has them; in cluster mode, Spark copies those of the SparkApplication into the container that it makes:
    tests/integration/spark/test_pods.py.
    """
    spec = application["spec"]
    if "template" in spec:
        (container,) = spec["template"]["spec"]["containers"]
        return list(container["args"])
    return list(spec.get("arguments") or spec["driverArgs"])


def as_started(arguments: list[str]) -> list[str]:
    """What the kubelet starts the container with."""
    return [expand(each, {"APP_PAYROLL": PAYROLL}) for each in arguments]


def read_a_secret(spec: dict[str, Any], apply: Apply) -> Outcome:
    """Put the value of a variable into an argument: Spark quotes it in the error that the status shows."""
    if said := apply(spec):
        return Refused(said)
    try:
        arguments = arguments_of(started(spec))
    except SpecError as error:
        return Refused(str(error))
    found = [each for each in as_started(arguments) if PAYROLL in each]
    return Gained(found[0]) if found else Refused("arguments are the texts that the user wrote")


def set_a_property(name: str, value: str, apply: Apply) -> Outcome:
    """Start a driver with a property."""
    spec = program(conf={name: value})
    if said := apply(spec):
        return Refused(said)
    try:
        arguments = arguments_of(started(spec))
    except SpecError as error:
        return Refused(str(error))
    return Gained(next(each for each in arguments if each.startswith(f"{name}=")))


def run_an_image(image: str, prefix: str) -> Outcome:
    """Run an image that the administrator did not name."""
    spec = SPEC | {"spark": SPARK["spark"] | {"application": {"image": image}}}
    try:
        application = started(spec, dataclasses.replace(ADMINISTRATOR, spark_image_prefixes=(prefix,)))
    except SpecError as error:
        return Refused(str(error))
    (container,) = application["spec"]["template"]["spec"]["containers"]
    return Gained(f"a driver of {container['image']}")


def write_elsewhere(prefix: str, apply: Apply, azurite: AzuriteProcess, *, checked: bool = True) -> Outcome:
    """Write files into another container of the account, with the credential of the hosts.

    A token and a shared access signature of the account are for no single container. (A shared key signs the path.)

    Args:
        prefix: Of the files; `{other}` is the name of the other container.
        apply: The API server.
        azurite: The account.
        checked: Whether the operator parses the spec.
    """
    with BlobServiceClient.from_connection_string(azurite.connection_string) as admin:
        own, other = (admin.create_container(azurite.container()) for _ in range(2))
        folder = prefix.format(other=other.container_name)
        spec = spec_with("sink.prefix", folder, SPEC)
        if said := apply(spec):
            return Refused(said)
        if checked:
            try:
                make_plan(observed(spec), SETTINGS)
            except SpecError as error:
                return Refused(str(error))
        asyncio.run(_put(azurite, own.container_name, f"{folder}/0.parquet"))
        found = [each.name for each in other.list_blobs()]
        return Gained(f"{found[0]} in another container") if found else Refused("the files are in their container")


async def _put(azurite: AzuriteProcess, container: str, name: str) -> None:
    """Write a blob as hosts do."""
    signature = generate_account_sas(
        ACCOUNT,
        account_key=KEY,
        resource_types=ResourceTypes(object=True),
        permission=AccountSasPermissions(write=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
        services=Services(blob=True),
    )
    async with AsyncBlobServiceClient(azurite.url, signature, **client_options()) as service:
        await AzureBlobStore(service, container, lambda _, __: None).put(name, b"events")


@pytest.fixture
def any_value(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Switch off the control of the operator for a property."""

    def allow(name: str) -> None:
        monkeypatch.setattr(operators_conf, "ALLOWED", {**ALLOWED, name: Form("any", ".*", ())})

    return allow


def test_no_property_shows_a_secret(apply: Apply, any_value: Callable[[str], None]) -> None:
    name = "spark.driver.maxResultSize"
    spec = program(conf={name: REFERENCE})
    at_server, at_operator = read_a_secret(spec, apply), read_a_secret(spec, stored)
    assert isinstance(at_server, Refused) and "spark.application.conf" in at_server.control
    assert isinstance(at_operator, Refused) and f"{name} has a value of another form" in at_operator.control
    any_value(name)
    assert read_a_secret(spec, stored) == Gained(f"{name}={PAYROLL}")


@pytest.mark.parametrize("launcher", [each.value for each in Launcher])
@pytest.mark.parametrize("text", [REFERENCE, f"$${REFERENCE}", f"--url=a{REFERENCE}b"])
def test_no_argument_shows_a_secret(launcher: str, text: str, apply: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = program(launcher, arguments=[text])
    outcome = read_a_secret(spec, apply)
    assert outcome == Refused("arguments are the texts that the user wrote")
    assert text in as_started(arguments_of(started(spec)))
    for module in (native, sparkapplications):
        monkeypatch.setattr(module, "inert", lambda text: text)
    assert isinstance(read_a_secret(spec, apply), Gained)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # Spark hangs at the first query.
        ("spark.sql.shuffle.partitions", "abc"),
        # Libraries log tokens and signatures.
        ("spark.log.level", "ALL"),
    ],
)
def test_no_value_stops_a_driver_or_opens_its_log(
    name: str, value: str, apply: Apply, any_value: Callable[[str], None]
) -> None:
    at_server, at_operator = set_a_property(name, value, apply), set_a_property(name, value, stored)
    assert isinstance(at_server, Refused) and at_server.control.count(name) == 1
    assert isinstance(at_operator, Refused) and f"{name} has a value of another form" in at_operator.control
    any_value(name)
    assert set_a_property(name, value, stored) == Gained(f"{name}={value}")


@pytest.mark.parametrize(
    ("prefix", "image"),
    [
        ("registry.example", "registry.example:5000/evil:1"),
        ("registry.example", "registry.example.evil.example/x:1"),
        ("shop", "shop:5000/evil:1"),
        ("registry.example/shop/orders:1", f"registry.example/shop/orders:1@sha256:{'0' * 64}"),
    ],
)
def test_a_prefix_of_images_covers_no_other_registry_and_no_other_version(prefix: str, image: str) -> None:
    outcome = run_an_image(image, prefix)
    assert isinstance(outcome, Refused) and "spec.spark.application.image" in outcome.control
    assert run_an_image(image, image.rpartition("/")[0] + "/") == Gained(f"a driver of {image}")


@pytest.mark.parametrize("prefix", ["../{other}/x", "a/../../{other}", "./../{other}"])
def test_no_prefix_of_files_leaves_the_container(prefix: str, apply: Apply, azurite: AzuriteProcess) -> None:
    at_server, at_operator = write_elsewhere(prefix, apply, azurite), write_elsewhere(prefix, stored, azurite)
    assert isinstance(at_server, Refused) and "spec.sink.prefix" in at_server.control
    assert isinstance(at_operator, Refused) and "spec.sink.prefix" in at_operator.control
    assert isinstance(write_elsewhere(prefix, stored, azurite, checked=False), Gained)


def test_a_prefix_without_such_segments_stays_in_the_container(apply: Apply, azurite: AzuriteProcess) -> None:
    folder = f"..{uuid4().hex}/day=1/.a"
    assert write_elsewhere(folder, apply, azurite) == Refused("the files are in their container")
