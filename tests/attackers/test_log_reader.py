"""A reader of logs, and a tenant who lets Spark write as much as it can: `spark.log.level: ALL`.

The operator refuses this level. Here it came past it, or a program set it. The control is the configuration of the log
without its filter, its fixed levels and its redaction.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from azure.storage.blob import AccountSasPermissions, BlobServiceClient, ResourceTypes, Services, generate_account_sas

from eventconsumer_api.kube.labels import BATCH_JOB_ENV
from eventconsumer_api.wire.batch import BatchJob
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.integration.spark.drained import DrainedBatch, host_name
from tests.integration.spark.drivers import EXAMPLE, fetch_jars, start_options
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.support.httpservers import Quiet, serving
from tests.support.sparkimage import SparkImage, hosts

pytestmark = pytest.mark.long  # contract/spark/test_log.py has what the configuration makes of each secret
ALL = "spark.log.level=ALL"
REDACTED = "%replace{%replace{%replace{%m}{${named}}{$1***}}{${headers}}{$1$2$3$4***}}{${forms}}{$1$2$3***}"
# A file is renamed by a copy from its URL. The emulator of storage cannot resolve its host, and its error has
# the URL of the call, with the signature.
COPY_REFUSED = "copyBlob"
TOKEN = "opaque-token-of-the-driver"  # noqa: S105 - of no cluster


@pytest.fixture
def image(tmp_path: Path) -> SparkImage:
    return SparkImage(tmp_path / "image")


def open_log(image: SparkImage) -> None:
    """Take the controls away from the log's configuration: its filter, its fixed levels, its redaction."""
    file = image.folder / "defaults/log4j2.properties"
    text = re.sub(r"^(filter|logger)\..*\n", "", file.read_text(), flags=re.MULTILINE)
    for what in ("%m", "%ex"):
        redacted = REDACTED.replace("%m", what)
        assert redacted in text
        text = text.replace(redacted, what)
    file.write_text(text)


def outcome(secret: str, log: str) -> Outcome:
    """Whether a log has a secret, and at least the words that show that Spark ran."""
    if times := log.count(secret) + log.count(unquote(secret)):
        return Gained(f"the secret, {times} times in {len(log)} characters")
    assert '"level": "info"' in log, "Spark wrote nothing at this level"
    return Refused("the configuration of the log")


@pytest.fixture
def signed(azurite: AzuriteProcess, tmp_path: Path) -> Iterator[tuple[DrainedBatch, str]]:
    """Files that a shared access signature opens, and the signature."""
    rights = AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True)
    sas = generate_account_sas(
        ACCOUNT,
        KEY,
        ResourceTypes(container=True, object=True),
        rights,
        datetime.now(UTC) + timedelta(hours=1),
        services=Services(blob=True),
    )
    secret = tmp_path / "connectionString"
    secret.write_text(f"BlobEndpoint={azurite.url};SharedAccessSignature={sas}")
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        drained = DrainedBatch(service.create_container(azurite.container()), host_name(azurite.port), str(secret))
        service.create_container(f"{drained.container.container_name}-out")
        drained.slot("0", 0, 20)
        signature = re.search(r"sig=([^&]+)", sas)
        assert signature
        yield drained, signature[1]


def batch_in_the_driver(image: SparkImage, job: BatchJob, options: list[str]) -> str:
    """The log of a driver without executors."""
    env = {BATCH_JOB_ENV: job.model_dump_json(by_alias=True)}
    ended = image.run("driver", "--local", "2", *options, str(EXAMPLE), env=env)
    assert COPY_REFUSED in ended.stdout, ended.stdout[-5000:]
    return ended.stdout


def batch_in_an_executor(image: SparkImage, job: BatchJob, options: list[str]) -> str:
    """The logs of a driver and its executor."""
    env = {BATCH_JOB_ENV: job.model_dump_json(by_alias=True)}
    ended = image.run("submit", "--master", "local-cluster[1,1,1024]", *options, str(EXAMPLE), env=env)
    assert COPY_REFUSED in ended.stdout, ended.stdout[-5000:]
    (executor,) = (image.home / "work").glob("*/*/stderr")
    log = ended.stdout + executor.read_text()
    shutil.rmtree(image.home / "work")
    return log


@pytest.mark.parametrize("run", [batch_in_the_driver, batch_in_an_executor])
def test_the_log_of_a_batch_has_no_signature_at_any_level(
    run: Callable[[SparkImage, BatchJob, list[str]], str],
    image: SparkImage,
    signed: tuple[DrainedBatch, str],
    tmp_path: Path,
) -> None:
    drained, signature = signed
    job = drained.freeze()
    classpath, archive = start_options(fetch_jars())
    java = f"{hosts(tmp_path, f'{ACCOUNT}.blob.localhost')} -XX:TieredStopAtLevel=1 {archive}"
    settings = {
        "spark.log.level": "ALL",
        "spark.hadoop.fs.azure.io.retry.max.retries": "0",
        "spark.executor.syncLogLevel.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.{role}.extraJavaOptions": java for role in ("driver", "executor")},
        **{f"spark.{role}.extraClassPath": classpath for role in ("driver", "executor")},
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    refused = outcome(signature, run(image, job, options))
    assert isinstance(refused, Refused), refused
    open_log(image)
    assert isinstance(outcome(signature, run(image, job.model_copy(update={"attempt": 2}), options)), Gained)


class Refusing(ThreadingHTTPServer):
    """In place of a cluster's API: it refuses all calls, and keeps their credentials."""

    def __init__(self) -> None:
        self.credentials: set[str | None] = set()
        server = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.credentials.add(self.headers["Authorization"])
                self.send_error(403)

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def api() -> Iterator[Refusing]:
    with serving(Refusing()) as server:
        yield server


def driver_with_executors(image: SparkImage, api: Refusing) -> str:
    """The log of a driver that spark-submit made in cluster mode, up to its first call of the cluster's API."""
    token = image.folder / "token"
    token.write_text(TOKEN)
    properties = image.folder / "spark.properties"
    program = image.folder / "program.py"
    program.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()")
    settings = {
        "spark.master": f"k8s://http://127.0.0.1:{api.server_port}",
        "spark.kubernetes.authenticate.oauthTokenFile": token,
        "spark.kubernetes.driver.pod.name": "orders-b1",
        "spark.kubernetes.container.image": "spark:1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ALL",
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    arguments = ("--properties-file", str(properties), str(program))
    ended = image.run("driver", *arguments, env={"SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1"})
    assert api.credentials == {f"Bearer {TOKEN}"}, ended.stdout[-5000:]
    return ended.stdout


def test_the_log_of_a_driver_has_no_token_at_any_level(image: SparkImage, api: Refusing) -> None:
    refused = outcome(TOKEN, driver_with_executors(image, api))
    assert isinstance(refused, Refused), refused
    open_log(image)
    assert isinstance(outcome(TOKEN, driver_with_executors(image, api)), Gained)
