"""Reports of the hosts of a consumer, by GET /status of each pod in parallel, as the operator does.

Without the permissions, or if no host responds, only the resource's status is available; `trouble` gives the cause.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pydantic import ValidationError

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.wire.host_report import FleetReport, HostReport
from eventconsumer_cli.errors import CliError, Failed, Forbidden
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import POD, name_of, namespace_of

_AT_ONCE = 8


@dataclass(frozen=True)
class HostPods:
    """The host pods of one consumer.

    Attributes:
        pods: All host pods, by name.
        reports: Reports of the pods that responded, by pod name.
        trouble: Why a running pod did not respond; empty: all responded.
    """

    pods: Mapping[str, Manifest] = field(default_factory=dict)
    reports: Mapping[str, HostReport] = field(default_factory=dict)
    trouble: str = ""

    @property
    def fleet(self) -> FleetReport | None:
        """The measurements of the leading host; None: no leader responded."""
        return next((report.fleet for report in self.reports.values() if report.fleet), None)

    @property
    def leader(self) -> str:
        """Pod name of the leading host; empty: none responded."""
        return next((pod for pod, report in self.reports.items() if report.fleet), "")


def host_selector(consumer: Manifest) -> dict[str, str]:
    """Labels of a consumer's host pods."""
    return {labels.LABEL_CONSUMER: name_of(consumer), labels.LABEL_COMPONENT: labels.COMPONENT_HOST}


def read(cluster: Cluster, consumer: Manifest, *, ask: bool = True) -> HostPods:
    """Find the hosts and ask all of them.

    Failures are reported in `trouble` and not raised: the resource's status is still available.

    Args:
        cluster: The cluster.
        consumer: The EventConsumer of the hosts.
        ask: Whether to query them; False: only list the pods.
    """
    namespace = namespace_of(consumer)
    try:
        pods = {name_of(pod): pod for pod in cluster.list(POD, namespace, host_selector(consumer))}
    except Forbidden as error:
        return HostPods(trouble=str(error))
    if not ask:
        return HostPods(pods)
    running = [name for name, pod in sorted(pods.items()) if pod.get("status", {}).get("phase") == "Running"]
    reports: dict[str, HostReport] = {}
    troubles: list[str] = []

    def answer_of(pod: str) -> HostReport | CliError:
        try:
            return HostReport.model_validate_json(cluster.ask_pod(namespace, pod, labels.HOST_PORT, "/status"))
        except ValidationError:
            return Failed(f"cannot parse the report of pod {namespace}/{pod}: it has another version than this plugin")
        except CliError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for pod, answer in zip(running, pool.map(answer_of, running), strict=True):
            if isinstance(answer, HostReport):
                reports[pod] = answer
            else:
                troubles.append(" ".join(filter(None, (f"{answer}.", answer.remedy))))
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return HostPods(pods, reports, troubles[0] + more if troubles else "")
