"""The input of all launchers, and the environment of all drivers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.mounts import NEVER_BY_PROXY, proxy_environment
from eventconsumer_api.spec.spark import Spark, SparkOutput
from eventconsumer_api.wire.batch import BatchJob, manifest_url
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.resource.observed import Consumer
from eventconsumer_operator.resource.pods import downward, plain

RESIDENT_SECONDS = 6 * 3600
"""Age at which a resident driver takes no further batch, against leaks of memory."""
EXECUTOR_IDLE = "60s"
"""Time after which an executor that is not needed ends if it has no task."""
# The operator deletes earlier. This is for times without an operator, and late enough to observe a commit first.
TTL_SLACK_SECONDS = 600


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
    output: SparkOutput
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

    @property
    def deadline_seconds(self) -> int:
        """Time after which Kubernetes stops the driver, seconds. The operator stops a resident driver that hangs."""
        return self.spark.timeout_seconds + (RESIDENT_SECONDS if self.batch.resident else 0)

    @property
    def first_executors(self) -> int:
        """Number of executors at the start."""
        return self.spark.executor.min_instances or self.spark.executor.instances

    @property
    def scaling(self) -> dict[str, str]:
        """Properties by which the number of executors follows the waiting tasks; empty: it is fixed.

        Without minInstances only a resident driver has them: its executors end while it waits. Shuffle tracking
        replaces an external shuffle service. Cached data, and shuffle files of jobs that are over, would keep an
        executor for ever by default. Source: "Dynamic Allocation" in Spark's configuration page.
        """
        executor = self.spark.executor
        if executor.min_instances is None and self.batch.resident is None:
            return {}
        return {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": str(executor.min_instances or 0),
            "spark.dynamicAllocation.initialExecutors": str(self.first_executors),
            "spark.dynamicAllocation.maxExecutors": str(executor.instances),
            "spark.dynamicAllocation.executorIdleTimeout": EXECUTOR_IDLE,
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": EXECUTOR_IDLE,
            "spark.dynamicAllocation.shuffleTracking.timeout": EXECUTOR_IDLE,
        }


def proxy_properties(launch: Launch) -> dict[str, str]:
    """Properties by which the JVMs of driver and executors use the proxy of the resource.

    Sources: networking properties of java.net (Oracle's "Java Networking and Proxies"). Hadoop's Apache HTTP client
    ignores them, so ABFS must use the JDK's (HADOOP-19120, fs.azure.networking.library).
    """
    proxy = launch.config.proxy
    if proxy is None:
        return {}
    host = str(urlsplit(proxy.url).hostname)
    given = [name.lstrip(".") for name in proxy.no_proxy]
    direct = "|".join([*NEVER_BY_PROXY, *given, *(f"*.{name}" for name in given)])
    options = " ".join(
        [
            *(f"-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={proxy.port}" for scheme in ("http", "https")),
            f"-Dhttp.nonProxyHosts={direct}",  # for https, too
        ]
    )
    return {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }


def driver_environment(launch: Launch) -> list[dict[str, Any]]:
    """Environment of every driver; it contains no secret."""
    # Reprocessing has several manifests, which the driver finds itself.
    one = launch.batch.reprocess is None
    variables = proxy_environment(launch.config.proxy)
    return [
        *(plain(name, value) for name, value in variables.items()),
        plain(labels.BATCH_JOB_ENV, launch.batch.to_json()),
        *([plain(labels.BATCH_MANIFEST_ENV, manifest_url(launch.batch))] if one else []),
        downward(labels.POD_NAME_ENV, "metadata.name"),
        downward("POD_NAMESPACE", "metadata.namespace"),
        downward("POD_IP", "status.podIP"),
    ]
