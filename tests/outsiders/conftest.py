"""The stage: written once for a session, read by every program."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark import live
from tests.integration.spark.conftest import unclosed_sockets
from tests.integration.spark.drivers import fetch_jars
from tests.outsiders.readers import emulated
from tests.outsiders.stage import OutsiderStage, build
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess


@pytest.fixture(scope="session")
def session(azurite: AzuriteProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session with the settings of the image."""
    spark = live.start(fetch_jars(), azurite, tmp_path_factory.mktemp("spark") / "hosts")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    with unclosed_sockets():
        live.stop(spark)


@pytest.fixture(scope="session")
def stage(
    emulator_process: EmulatorProcess,
    azurite: AzuriteProcess,
    session: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OutsiderStage]:
    """The consumer's files, table, dead letters and output of Spark."""
    with unclosed_sockets():
        made = build(emulator_process, azurite, session, tmp_path_factory.mktemp("outsiders"))
    emulator_process.empty()
    os.environ["AZURITE_BLOB_STORAGE_URL"] = emulated(azurite)
    yield made
    del os.environ["AZURITE_BLOB_STORAGE_URL"]


@pytest.fixture
def sockets() -> Iterator[None]:
    """For tests that use the Spark session."""
    with unclosed_sockets():
        yield
