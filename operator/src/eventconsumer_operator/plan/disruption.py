"""The PodDisruptionBudget of the hosts: node drains evict one host at a time. Pure.

It sets maxUnavailable, not minAvailable, so that a fleet of one host can be evicted, too. A host that is not ready may
always be evicted: it reads nothing, and must not block the drain of a node. So must a host that does not end.
"""

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_operator.kube.manifest import POD_DISRUPTION_BUDGET
from eventconsumer_operator.resource.names import child, host_name, selector
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import stuck_pods


def disruption_budget(observed: Observed) -> Manifest:
    """The budget of the host pods."""
    consumer = observed.consumer
    return child(consumer, POD_DISRUPTION_BUDGET, host_name(consumer.key), labels.COMPONENT_HOST) | {
        "spec": {
            "maxUnavailable": 1 + len(stuck_pods(observed.pods, observed.now)),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(consumer.key, labels.COMPONENT_HOST)},
        }
    }
