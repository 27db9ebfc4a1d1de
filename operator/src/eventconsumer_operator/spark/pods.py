"""The pods of an application: its driver and its executors, and whether they can start. Pure."""

from eventconsumer_api import labels
from eventconsumer_api.kinds import Manifest
from eventconsumer_operator.kube.manifest import JOB, controller_uid
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import is_unstartable
from eventconsumer_operator.spark.applications import Application


def drivers_of(application: Application, observed: Observed) -> tuple[Manifest, ...]:
    """The driver pods of an application, running or finished."""
    return tuple(pod for pod in observed.drivers if _is_of(pod, application, observed))


def executors_of(application: Application, observed: Observed) -> tuple[Manifest, ...]:
    """The existing executor pods of an application; its driver owns them."""
    uids = {pod["metadata"].get("uid") for pod in drivers_of(application, observed)}
    return tuple(pod for pod in observed.executors if controller_uid(pod) in uids)


def cannot_start(application: Application, observed: Observed) -> bool:
    """Whether the driver pod cannot start without an action, for example because of a missing image."""
    return any(is_unstartable(pod) for pod in drivers_of(application, observed))


def _is_of(pod: Manifest, application: Application, observed: Observed) -> bool:
    owner = controller_uid(pod)
    if application.kind == JOB or owner != observed.consumer.uid:
        return owner == application.uid
    # The launcher sets no owner: the owner in the template is the resource, and labels name the attempt.
    told = pod["metadata"].get("labels", {})
    return bool(
        told.get(labels.LABEL_BATCH) == str(application.batch)
        and told.get(labels.LABEL_ATTEMPT, "1") == str(application.attempt)
    )
