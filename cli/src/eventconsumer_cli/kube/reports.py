"""What the hosts of a consumer say about themselves, as the operator asks them: GET /status of each pod, side by side.

Without the rights for that, or with no host that answers, the resource's own status is left; `trouble` says why.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pydantic import ValidationError

from eventconsumer_api import labels
from eventconsumer_api.host_report import FleetReport, HostReport
from eventconsumer_api.kinds import Manifest
from eventconsumer_cli.errors import CliError, Failed, Forbidden
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import POD, name_of, namespace_of

_AT_ONCE = 8


@dataclass(frozen=True)
class Hosts:
    """The host pods of one consumer.

    Attributes:
        pods: All there are, by name.
        reports: What those say that answer, by pod name.
        trouble: Why a running pod said nothing; empty: all answered.
    """

    pods: Mapping[str, Manifest] = field(default_factory=dict)
    reports: Mapping[str, HostReport] = field(default_factory=dict)
    trouble: str = ""

    @property
    def fleet(self) -> FleetReport | None:
        """What the leading host measured; None: no leader answered."""
        return next((report.fleet for report in self.reports.values() if report.fleet), None)

    @property
    def leader(self) -> str:
        """Pod name of the leading host; empty: none answered."""
        return next((pod for pod, report in self.reports.items() if report.fleet), "")


def host_selector(consumer: Manifest) -> dict[str, str]:
    """Labels of a consumer's host pods."""
    return {labels.LABEL_CONSUMER: name_of(consumer), labels.LABEL_COMPONENT: labels.COMPONENT_HOST}


def read(cluster: Cluster, consumer: Manifest, *, ask: bool = True) -> Hosts:
    """Find the hosts and ask all of them.

    What cannot be asked is in `trouble` and no error: the resource's status still tells much.

    Args:
        cluster: Where they run.
        consumer: Whose they are.
        ask: Whether to ask; no: only which pods there are.
    """
    namespace = namespace_of(consumer)
    try:
        pods = {name_of(pod): pod for pod in cluster.list(POD, namespace, host_selector(consumer))}
    except Forbidden as error:
        return Hosts(trouble=str(error))
    if not ask:
        return Hosts(pods)
    running = [name for name, pod in sorted(pods.items()) if pod.get("status", {}).get("phase") == "Running"]
    reports: dict[str, HostReport] = {}
    troubles: list[str] = []

    def answer_of(pod: str) -> HostReport | CliError:
        try:
            return HostReport.model_validate_json(cluster.ask_pod(namespace, pod, labels.HOST_PORT, "/status"))
        except ValidationError:
            return Failed(f"pod {namespace}/{pod} sent a report that this version does not understand")
        except CliError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for pod, answer in zip(running, pool.map(answer_of, running), strict=True):
            if isinstance(answer, HostReport):
                reports[pod] = answer
            else:
                troubles.append(" ".join(filter(None, (f"{answer}.", answer.remedy))))
    more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return Hosts(pods, reports, troubles[0] + more if troubles else "")
