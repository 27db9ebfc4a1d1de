"""The input of all launchers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_api.batch import BatchJob
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.spark import Output, Spark
from eventconsumer_operator.resource.observed import Consumer


@dataclass(frozen=True)
class Parts:
    """The parts that all applications of a resource share.

    Attributes:
        consumer: The resource that owns them.
        spark: Its spec.spark.
        output: Their output.
        config: Configuration of the hosts.
        image: Image of drivers and executors.
        confs: Checked Spark properties of the user.
        chain: Identity of the chain of files, from the leading host.
    """

    consumer: Consumer
    spark: Spark
    output: Output
    config: HostConfig
    image: str
    confs: Mapping[str, str]
    chain: str


@dataclass(frozen=True)
class Launch:
    """One application to create.

    Attributes:
        consumer: The resource that owns it.
        spark: The resource's spec.spark: sizes, program, time limit, history.
        batch: Input of the driver.
        config: Configuration of the hosts, for the credential of the sink.
        name: Name of the application; a launcher may add 12 characters.
        labels: Labels of the application and of all its pods.
        image: Image of driver and executors.
        local: Whether all tasks run in the driver, without executors.
        confs: Checked Spark properties of the user; the launcher overrides them.
        small: Whether the start takes longer than the work.
    """

    consumer: Consumer
    spark: Spark
    batch: BatchJob
    config: HostConfig
    name: str
    labels: Mapping[str, str]
    image: str
    local: bool
    confs: Mapping[str, str]
    small: bool = False
