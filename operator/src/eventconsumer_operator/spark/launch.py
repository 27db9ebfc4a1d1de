"""What a launcher makes an application of: the same for all launchers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_api.batch import BatchJob
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.spark import Output, Spark
from eventconsumer_operator.resource.observed import Consumer


@dataclass(frozen=True)
class Parts:
    """What is the same for all applications of a resource.

    Attributes:
        consumer: The resource that owns them.
        spark: Its spec.spark.
        output: Where they write.
        config: What hosts are told.
        image: Image of drivers and executors.
        confs: Spark properties that the user chose, checked.
        chain: Identity of the chain of files, as the leading host tells it.
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
    """One application to be.

    Attributes:
        consumer: The resource that owns it.
        spark: The resource's spec.spark: sizes, program, time limit, history.
        batch: What the driver is told.
        config: What hosts are told: the credential of the sink, which the driver uses too.
        name: Name of the application, short enough for a launcher to add 12 characters to.
        labels: Labels of the application and of all its pods.
        image: Image of driver and executors.
        local: Whether all tasks run in the driver, so that there are no executors.
        confs: Spark properties that the user chose, checked. What a launcher sets itself wins over them.
        small: Whether starting takes longer than the work.
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
