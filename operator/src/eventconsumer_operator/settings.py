"""Settings of the administrator: command-line flags, fixed for the life of the process."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from eventconsumer_api.kube.labels import HOST_SERVICE_ACCOUNT
from eventconsumer_api.spec.endpoints import (
    AZURE_HUB_SUFFIXES,
    AZURE_STORAGE_SUFFIXES,
    NOTICE_URL_PATTERN,
    REGISTRY_URL_PATTERN,
    SUFFIX_PATTERN,
)
from eventconsumer_api.spec.programs import ENV_PREFIX_PATTERN, OWN_ENV_WORDS
from eventconsumer_api.spec.scheduling import is_reserved
from eventconsumer_api.spec.spark import Launcher

API_SERVER_PORTS = (443, 6443, 8443, 16443)
"""Ports of the API server in common distributions."""
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Settings:
    """The operator's own settings.

    Attributes:
        namespaces: Namespaces whose EventConsumers are served; at least one, or "" alone for all.
        processor_image: Image of hosts.
        spark_image: Image of Spark drivers and executors.
        spark_launchers: Allowed values of spec.spark.launcher besides Native.
        handler_image_prefixes: Allowed prefixes of spec.processing.image; empty: no images of users.
        spark_image_prefixes: Allowed prefixes of spec.spark.application.image; empty: no images of users.
        secret_name_prefixes: Allowed prefixes of the names of Secrets; empty: all names.
        config_map_name_prefixes: Allowed prefixes of the names of ConfigMaps; empty: all names.
        env_prefixes: Allowed prefixes of variables of handlers and Spark programs, besides APP_.
        reserved_secrets: Names of Secrets of the operator's own installation, which no spec may name.
        pod_metadata_prefixes: Allowed keys of labels and annotations of pods: all keys of a domain for a prefix that
            ends with a slash, else exactly that key; empty: none.
        node_label_prefixes: Allowed labels of nodes in nodeSelector and affinity of pods, in the same form; empty:
            none.
        taint_prefixes: Allowed keys of tolerations of pods, in the same form; empty: none.
        priority_classes: Allowed values of priorityClassName of pods; empty: none.
        storage_classes: Allowed values of spec.spark.driver.scratch.storageClassName, and of executors; empty: none.
        hub_suffixes: Allowed suffixes of namespaces of Event Hubs: a host is <namespace>.<suffix>.
        storage_suffixes: Allowed suffixes of storage accounts: a host is <account>.blob.<suffix>, or has dfs for blob.
        proxy_suffixes: Allowed domains of spec.proxy.url; empty: none.
        notice_endpoints: Allowed values of spec.sink.notices.url, or what they start with, for one that ends with a
            slash; empty: none.
        schema_registries: Allowed values of spec.spark.output.body.registry.url; empty: none.
        allow_insecure_endpoints: Allow plain HTTP and AMQP, IP addresses, localhost and any domain; for emulators only.
        egress_cidrs: Ranges of addresses that egress in a spec may name, or parts of them; empty: none.
        egress_namespaces: Namespaces whose pods egress in a spec may name, besides its own.
        network_policies: Whether the pods of hosts and of Spark get NetworkPolicies.
        operator_namespace: Namespace of this operator, which may connect to hosts; empty: unknown.
        api_server_ports: Ports on which Spark's drivers reach the API server, behind its Service.
        metrics_namespaces: Namespaces whose pods may read the metrics of hosts too.
        fleet_key_file: Private key that signs operator messages, Ed25519 in PEM; None: a new key at each start.
        host_service_account: Service account of host pods, in the namespace of each resource.
        leader_elect: Whether to work only while holding the leader lease, for several operators.
        resync_seconds: Time between complete lists, seconds.
        health_port: Port of /healthz and /metrics.
        probe_port: Another port of /healthz, for the kubelet alone; None: none.
        status_page_port: Port of the status page, which has no login; None: no page.
        status_page_hosts: Host names under which the status page answers, besides localhost and its Service.
        workers: Number of concurrent reconciles.
        log_level: Level of the log.
    """

    namespaces: tuple[str, ...]
    processor_image: str
    spark_image: str
    spark_launchers: tuple[Launcher, ...] = ()
    handler_image_prefixes: tuple[str, ...] = ()
    spark_image_prefixes: tuple[str, ...] = ()
    secret_name_prefixes: tuple[str, ...] = ()
    config_map_name_prefixes: tuple[str, ...] = ()
    env_prefixes: tuple[str, ...] = ()
    reserved_secrets: tuple[str, ...] = ()
    pod_metadata_prefixes: tuple[str, ...] = ()
    node_label_prefixes: tuple[str, ...] = ()
    taint_prefixes: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    storage_classes: tuple[str, ...] = ()
    hub_suffixes: tuple[str, ...] = AZURE_HUB_SUFFIXES
    storage_suffixes: tuple[str, ...] = AZURE_STORAGE_SUFFIXES
    proxy_suffixes: tuple[str, ...] = ()
    notice_endpoints: tuple[str, ...] = ()
    schema_registries: tuple[str, ...] = ()
    allow_insecure_endpoints: bool = False
    egress_cidrs: tuple[str, ...] = ()
    egress_namespaces: tuple[str, ...] = ()
    network_policies: bool = False
    operator_namespace: str = ""
    api_server_ports: tuple[int, ...] = API_SERVER_PORTS
    metrics_namespaces: tuple[str, ...] = ()
    fleet_key_file: Path | None = None
    host_service_account: str = HOST_SERVICE_ACCOUNT
    leader_elect: bool = False
    resync_seconds: float = 120.0
    health_port: int = 8081
    probe_port: int | None = None
    status_page_port: int | None = None
    status_page_hosts: tuple[str, ...] = ()
    workers: int = 64
    log_level: str = "INFO"


def parse_settings(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the flags; exit with a message on invalid ones.

    Args:
        argv: Arguments without the program's name.
        environment: POD_NAMESPACE is the namespace of this operator.
    """
    parser = argparse.ArgumentParser(
        prog="eventconsumer-operator", description="Reconciles EventConsumer resources into hosts and Spark jobs."
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="namespace to serve; may be repeated; required without --all-namespaces",
    )
    parser.add_argument("--all-namespaces", action="store_true", help="serve every namespace (needs a ClusterRole)")
    parser.add_argument(
        "--host-service-account",
        default=Settings.host_service_account,
        help="service account of host pods, in the namespace of each resource",
    )
    parser.add_argument(
        "--leader-elect", action="store_true", help="work only while leading: for several operators side by side"
    )
    parser.add_argument("--processor-image", required=True, help="image of the hosts")
    parser.add_argument("--spark-image", required=True, help="image of Spark drivers and executors")
    parser.add_argument(
        "--spark-launcher",
        action="append",
        default=[],
        choices=[launcher.value for launcher in Launcher if launcher is not Launcher.NATIVE],
        help="allowed value of spec.spark.launcher besides Native; may be repeated",
    )
    parser.add_argument(
        "--handler-image-prefix",
        action="append",
        default=[],
        help="allowed prefix of spec.processing.image; may be repeated",
    )
    parser.add_argument(
        "--spark-image-prefix",
        action="append",
        default=[],
        help="allowed prefix of spec.spark.application.image; may be repeated",
    )
    parser.add_argument(
        "--allow-insecure-endpoints",
        action="store_true",
        help="allow plain HTTP and AMQP, IP addresses, localhost and any domain (emulators only)",
    )
    _add_limits(parser)
    parser.add_argument(
        "--fleet-key-file", type=Path, help="private key that signs operator messages; default: a new key at each start"
    )
    parser.add_argument("--resync-seconds", type=float, default=Settings.resync_seconds, help="full list this often")
    parser.add_argument("--health-port", type=int, default=Settings.health_port, help="port of /healthz and /metrics")
    parser.add_argument("--probe-port", type=int, help="another port of /healthz, for the kubelet alone; default: none")
    parser.add_argument(
        "--status-page-port", type=int, help="port of the status page, which has no login; default: there is no page"
    )
    parser.add_argument(
        "--status-page-host",
        action="append",
        default=[],
        type=_host_name,
        help="host name under which the status page answers, such as that of an ingress; may be repeated; default: "
        "localhost and the page's Service only",
    )
    parser.add_argument("--workers", type=int, default=Settings.workers, help="resources reconciled at a time")
    levels = ["DEBUG", "INFO", "WARNING", "ERROR"]
    parser.add_argument("--log-level", default=Settings.log_level, choices=levels, help="level of the log")
    given = parser.parse_args(argv)
    own = _own_namespace(environment)
    namespaces = ("",) if given.all_namespaces else tuple(dict.fromkeys(given.namespace))
    if given.all_namespaces and given.namespace:
        parser.error("give --namespace or --all-namespaces, not both")
    if given.leader_elect and not own:
        parser.error("--leader-elect needs a Lease in this operator's namespace: set POD_NAMESPACE")
    if not namespaces:
        parser.error("no namespace to serve: give --namespace, or --all-namespaces")
    if given.network_policies and not own:
        parser.error("--network-policies lets this operator's namespace talk to hosts: set POD_NAMESPACE")
    return Settings(
        namespaces=namespaces,
        processor_image=given.processor_image,
        spark_image=given.spark_image,
        spark_launchers=tuple(Launcher(name) for name in dict.fromkeys(given.spark_launcher)),
        handler_image_prefixes=tuple(given.handler_image_prefix),
        spark_image_prefixes=tuple(given.spark_image_prefix),
        secret_name_prefixes=tuple(given.secret_name_prefix),
        config_map_name_prefixes=tuple(given.config_map_name_prefix),
        env_prefixes=tuple(given.env_prefix),
        reserved_secrets=tuple(given.reserved_secret),
        pod_metadata_prefixes=tuple(given.pod_metadata_prefix),
        node_label_prefixes=tuple(given.node_label_prefix),
        taint_prefixes=tuple(given.taint_prefix),
        priority_classes=tuple(given.priority_class),
        storage_classes=tuple(given.storage_class),
        hub_suffixes=tuple(given.hub_suffix) or AZURE_HUB_SUFFIXES,
        storage_suffixes=tuple(given.storage_suffix) or AZURE_STORAGE_SUFFIXES,
        proxy_suffixes=tuple(given.proxy_suffix),
        notice_endpoints=tuple(given.notice_endpoint),
        schema_registries=tuple(given.schema_registry),
        allow_insecure_endpoints=given.allow_insecure_endpoints,
        egress_cidrs=tuple(given.egress_cidr),
        egress_namespaces=tuple(given.egress_namespace),
        network_policies=given.network_policies,
        operator_namespace=own[0] if own else "",
        api_server_ports=tuple(given.api_server_port) or API_SERVER_PORTS,
        metrics_namespaces=tuple(given.metrics_namespace),
        fleet_key_file=given.fleet_key_file,
        host_service_account=given.host_service_account,
        leader_elect=given.leader_elect,
        resync_seconds=given.resync_seconds,
        health_port=given.health_port,
        probe_port=given.probe_port,
        status_page_port=given.status_page_port,
        status_page_hosts=tuple(given.status_page_host),
        workers=given.workers,
        log_level=given.log_level,
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Flags that limit what users may set in their resources, and which namespaces may connect to hosts."""
    parser.add_argument(
        "--secret-name-prefix",
        action="append",
        default=[],
        help="allowed prefix of the names of Secrets in a spec; may be repeated; default: all names",
    )
    parser.add_argument(
        "--config-map-name-prefix",
        action="append",
        default=[],
        help="allowed prefix of the names of ConfigMaps in a spec; may be repeated; default: all names",
    )
    parser.add_argument(
        "--env-prefix",
        action="append",
        default=[],
        type=_env_prefix,
        help="allowed prefix of the variables of handlers and Spark programs, such as SHOP_, besides APP_; may be "
        "repeated",
    )
    parser.add_argument(
        "--reserved-secret",
        action="append",
        default=[],
        help="Secret of this installation that no spec may name, such as that of --fleet-key-file; may be repeated",
    )
    parser.add_argument(
        "--pod-metadata-prefix",
        action="append",
        default=[],
        type=_metadata_prefix,
        help="allowed key of labels and annotations of pods, or domain/ for all its keys; may be repeated",
    )
    parser.add_argument(
        "--node-label-prefix",
        action="append",
        default=[],
        help="allowed label in nodeSelector and affinity of pods, or domain/ for all its keys; may be repeated",
    )
    parser.add_argument(
        "--taint-prefix",
        action="append",
        default=[],
        help="allowed key of tolerations of pods, or domain/ for all its keys; may be repeated",
    )
    parser.add_argument(
        "--priority-class",
        action="append",
        default=[],
        help="allowed value of priorityClassName of pods; may be repeated",
    )
    parser.add_argument(
        "--storage-class",
        action="append",
        default=[],
        help="allowed value of storageClassName of spec.spark.driver.scratch and .executor.scratch; may be repeated",
    )
    parser.add_argument(
        "--hub-suffix",
        action="append",
        default=[],
        type=_suffix,
        help="allowed suffix of Event Hubs namespaces, such as servicebus.windows.net; may be repeated; default: "
        "Azure's clouds",
    )
    parser.add_argument(
        "--storage-suffix",
        action="append",
        default=[],
        type=_storage_suffix,
        help="allowed suffix of storage accounts, after blob. or dfs., such as core.windows.net; may be repeated; "
        "default: Azure's clouds",
    )
    parser.add_argument(
        "--proxy-suffix",
        action="append",
        default=[],
        type=_suffix,
        help="allowed domain of spec.proxy.url; may be repeated; default: none",
    )
    parser.add_argument(
        "--notice-endpoint",
        action="append",
        default=[],
        type=_notice_endpoint,
        help="allowed value of spec.sink.notices.url, such as https://hooks.example.com/files, or what it starts with, "
        "if it ends with a slash; may be repeated; default: none",
    )
    parser.add_argument(
        "--schema-registry",
        action="append",
        default=[],
        type=_schema_registry,
        help="allowed value of spec.spark.output.body.registry.url, such as https://shop.servicebus.windows.net; may "
        "be repeated; default: none",
    )
    parser.add_argument("--endpoint-suffix", type=_replaced, help=argparse.SUPPRESS)
    parser.add_argument(
        "--egress-cidr",
        action="append",
        default=[],
        type=_cidr,
        help="range of addresses that egress in a spec may name, such as 10.1.0.0/16; may be repeated; default: none",
    )
    parser.add_argument(
        "--egress-namespace",
        action="append",
        default=[],
        help="namespace whose pods egress in a spec may name, besides its own; may be repeated; default: none",
    )
    parser.add_argument("--network-policies", action="store_true", help="give hosts and Spark NetworkPolicies")
    parser.add_argument(
        "--api-server-port",
        action="append",
        default=[],
        type=_port,
        help="port on which Spark's drivers reach the API server, behind its Service; may be repeated; default: "
        f"{', '.join(map(str, API_SERVER_PORTS))}",
    )
    parser.add_argument(
        "--metrics-namespace",
        action="append",
        default=[],
        help="namespace whose pods may read the metrics of hosts where they have a NetworkPolicy; may be repeated",
    )


def _metadata_prefix(text: str) -> str:
    if is_reserved(text):
        raise argparse.ArgumentTypeError(f"{text} is reserved for Kubernetes and this operator")
    return text


def _env_prefix(text: str) -> str:
    if not re.fullmatch(ENV_PREFIX_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text} is not a prefix of variables: write it like SHOP_")
    if text.partition("_")[0] in OWN_ENV_WORDS:
        raise argparse.ArgumentTypeError(f"{text} is for variables that hosts and Spark have already: use another one")
    return text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port: write a number from 1 to 65535")
    return int(text)


def _cidr(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: write a range of addresses like 10.1.0.0/16") from None


def _suffix(text: str) -> str:
    suffix = text.lower().lstrip("*").strip(".")
    if not re.fullmatch(SUFFIX_PATTERN, suffix):
        raise argparse.ArgumentTypeError(f"{text} is not a domain: write it like servicebus.windows.net")
    return suffix


def _storage_suffix(text: str) -> str:
    suffix = _suffix(text)
    service, _, rest = suffix.partition(".")
    if service in ("blob", "dfs"):
        raise argparse.ArgumentTypeError(
            f"{text} names a service: write the part after it, {rest or 'core.windows.net'}"
        )
    return suffix


def _notice_endpoint(text: str) -> str:
    if not re.fullmatch(NOTICE_URL_PATTERN, text):
        raise argparse.ArgumentTypeError(
            f"{text} is not an endpoint of notices: write it like https://hooks.example.com/files, in lower case, with "
            "a path and without a query"
        )
    return text


def _schema_registry(text: str) -> str:
    if not re.fullmatch(REGISTRY_URL_PATTERN, text):
        raise argparse.ArgumentTypeError(
            f"{text} is not a schema registry: write it like https://shop.servicebus.windows.net, in lower case, "
            "without a slash at the end"
        )
    return text


def _host_name(text: str) -> str:
    if not re.fullmatch(SUFFIX_PATTERN, text):
        raise argparse.ArgumentTypeError(
            f"{text} is not a host name: write it like page.example.com, in lower case, without scheme and port"
        )
    return text


def _replaced(text: str) -> str:
    raise argparse.ArgumentTypeError(
        f"each role has its own list now, so {text} is in none: give --hub-suffix (such as servicebus.windows.net), "
        "--storage-suffix (such as core.windows.net) or --proxy-suffix"
    )


def _own_namespace(environment: Mapping[str, str]) -> tuple[str, ...]:
    if environment.get("POD_NAMESPACE"):
        return (environment["POD_NAMESPACE"],)
    if NAMESPACE_FILE.exists():
        return (NAMESPACE_FILE.read_text().strip(),)
    return ()
