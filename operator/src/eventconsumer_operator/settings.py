"""Settings: what the administrator decides, given as command-line flags and fixed for the life of the process."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Settings:
    """The operator's own settings.

    Attributes:
        namespaces: Namespaces whose EventConsumers are served; at least one.
        processor_image: Image of hosts.
        spark_image: Image of Spark drivers and executors.
        handler_image_prefixes: What spec.processing.image may start with; empty: no image of users is run.
        allow_insecure_endpoints: Plain HTTP and AMQP, IP addresses and localhost are allowed: for emulators only.
        resync_seconds: How often all EventConsumers are listed, whatever the watch says, seconds.
        health_port: Port of /healthz and /metrics.
        workers: EventConsumers reconciled at a time.
        log_level: Level of the log.
    """

    namespaces: tuple[str, ...]
    processor_image: str
    spark_image: str
    handler_image_prefixes: tuple[str, ...] = ()
    allow_insecure_endpoints: bool = False
    resync_seconds: float = 120.0
    health_port: int = 8081
    workers: int = 8
    log_level: str = "INFO"


def parse_settings(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read flags; exits with a message on wrong ones.

    Args:
        argv: Arguments without the program's name.
        environment: POD_NAMESPACE is the namespace to serve where no --namespace is given.
    """
    parser = argparse.ArgumentParser(
        prog="eventconsumer-operator", description="Reconciles EventConsumer resources into hosts and Spark jobs."
    )
    parser.add_argument("--namespace", action="append", default=[], help="namespace to serve; may be repeated")
    parser.add_argument("--processor-image", required=True, help="image of the hosts")
    parser.add_argument("--spark-image", required=True, help="image of Spark drivers and executors")
    parser.add_argument(
        "--handler-image-prefix",
        action="append",
        default=[],
        help="what spec.processing.image may start with; may be repeated",
    )
    parser.add_argument(
        "--allow-insecure-endpoints",
        action="store_true",
        help="allow plain HTTP and AMQP, IP addresses and localhost (emulators only)",
    )
    parser.add_argument("--resync-seconds", type=float, default=Settings.resync_seconds, help="full list this often")
    parser.add_argument("--health-port", type=int, default=Settings.health_port, help="port of /healthz and /metrics")
    parser.add_argument("--workers", type=int, default=Settings.workers, help="resources reconciled at a time")
    parser.add_argument("--log-level", default=Settings.log_level, choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    given = parser.parse_args(argv)
    namespaces = tuple(dict.fromkeys(given.namespace)) or _own_namespace(environment)
    if not namespaces:
        parser.error("no namespace to serve: give --namespace, or set POD_NAMESPACE")
    return Settings(
        namespaces=namespaces,
        processor_image=given.processor_image,
        spark_image=given.spark_image,
        handler_image_prefixes=tuple(given.handler_image_prefix),
        allow_insecure_endpoints=given.allow_insecure_endpoints,
        resync_seconds=given.resync_seconds,
        health_port=given.health_port,
        workers=given.workers,
        log_level=given.log_level,
    )


def _own_namespace(environment: Mapping[str, str]) -> tuple[str, ...]:
    if environment.get("POD_NAMESPACE"):
        return (environment["POD_NAMESPACE"],)
    if NAMESPACE_FILE.exists():
        return (NAMESPACE_FILE.read_text().strip(),)
    return ()
