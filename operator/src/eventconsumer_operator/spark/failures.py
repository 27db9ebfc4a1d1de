"""Why attempts at a batch failed or do not begin, as text for people: what happened, and what to change. Pure.

The causes lie in many places (the launcher's object, the driver's pod, its last words, its executors' pods). The text
is made from the one that says most: first who ended the attempt, then what the driver said, then how it exited.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta

from eventconsumer_api import labels
from eventconsumer_api.host_config import Credential
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.spark import Spark
from eventconsumer_operator.kube.manifest import JOB, describe, is_being_deleted
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import disruption, out_of_memory, pod_failures, termination_message
from eventconsumer_operator.spark.applications import Application, ApplicationState
from eventconsumer_operator.spark.attempts import POD_GRACE, Cause, Failure
from eventconsumer_operator.spark.native import is_local
from eventconsumer_operator.spark.operators import unanswered
from eventconsumer_operator.spark.pods import drivers_of, executors_of

_EXECUTORS_GRACE = timedelta(seconds=180)  # the driver starts before it asks for any
_CREATION_GRACE = timedelta(minutes=5)  # a large image takes its time on a new node
_OVER = {"Failed", "Succeeded"}
_HEAP = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|MemoryError")
_LOST = re.compile(r"ExecutorLostFailure|exit code 137|OOMKilled|Python worker exited unexpectedly")
_KILLED = 137


def why_failed(failure: Failure, observed: Observed, spark: Spark, *, local: bool) -> str:
    """What made an attempt fail, and the remedy."""
    application = failure.application
    drivers = drivers_of(application, observed)
    if failure.cause is Cause.NO_COMMIT:
        return (
            "it ended without committing the batch: a program of your own must end with run_batch or commit_batch; "
            f"{_logs(application)}"
        )
    if failure.cause is Cause.CANNOT_START:
        return "; ".join(pod_failures(drivers))
    reasons = {application.message.partition(":")[0], *(pod.get("status", {}).get("reason") for pod in drivers)}
    if failure.cause is Cause.TOO_LONG or "DeadlineExceeded" in reasons:
        return (
            f"it did not end within spec.spark.timeoutSeconds ({spark.timeout_seconds}): raise it, or let batches be "
            f"smaller (spec.spark.batch), or give it more {'spec.spark.driver.cores' if local else _MORE_EXECUTORS}"
        )
    if any(map(out_of_memory, drivers)):
        return (
            "the driver needed more memory than its pod has and was killed (OOMKilled): raise spec.spark.driver.memory "
            f"(now {spark.driver.memory})"
        )
    if any(map(out_of_memory, executors_of(application, observed))):
        return _executor_memory("an executor was killed (OOMKilled)", spark)
    if found := next(filter(None, map(disruption, drivers)), ""):
        return f"its driver was made to go: {found}"
    if said := next(filter(None, map(termination_message, drivers)), ""):
        return _explained(said, spark, local=local)
    return f"{_exit(drivers) or application.message or 'no reason given'}: {_logs(application)}"


_MORE_EXECUTORS = "spec.spark.executor.instances"


def _explained(said: str, spark: Spark, *, local: bool) -> str:
    """What the driver said last, with a remedy where that is about memory; else it names one itself."""
    if _HEAP.search(said):
        driver = f"spec.spark.driver.memory (now {spark.driver.memory})"
        if local:
            return f"{said}: raise {driver}, or let batches be smaller (spec.spark.batch)"
        return f"{said}: raise spec.spark.executor.memory (now {spark.executor.memory}) or {driver}"
    if _LOST.search(said):
        return f"{said}: raise spec.spark.driver.memory" if local else _executor_memory(said, spark)
    return said


def _executor_memory(what: str, spark: Spark) -> str:
    return f"{what}: raise spec.spark.executor.memory (now {spark.executor.memory})"


def _exit(drivers: Iterable[Manifest]) -> str:
    for pod in drivers:
        for container in pod.get("status", {}).get("containerStatuses", []):
            code = container.get("state", {}).get("terminated", {}).get("exitCode")
            if code == _KILLED:
                return "the driver was killed (exit code 137), by a person or by its node"
            if code:
                return f"the driver ended with exit code {code}"
    return ""


def _logs(application: Application) -> str:
    if application.kind == JOB:
        return f"kubectl logs job/{application.name} shows more"
    return f"the log of its driver ({application.name}) shows more"


def why_waiting(application: Application, observed: Observed, spark: Spark, credential: Credential) -> str:
    """Why an attempt does not begin, and the remedy; empty where it does, or may still."""
    return "; ".join(_waits(application, observed, spark, credential))


def _waits(application: Application, observed: Observed, spark: Spark, credential: Credential) -> Iterator[str]:
    age = observed.now - (application.started or observed.now)
    if application.deleted or age <= POD_GRACE:
        return
    found = next((each for each in observed.applications if each["metadata"]["uid"] == application.uid), None)
    if found and (text := unanswered(found, observed.now)):
        yield text
        return
    drivers = drivers_of(application, observed)
    if not drivers and application.state is ApplicationState.PENDING:
        if application.message:
            yield application.message
        elif found:
            yield (
                f"its driver's pod is refused, as by a quota, an admission rule, or because the namespace has no "
                f"service account {labels.SPARK_SERVICE_ACCOUNT}: kubectl describe {describe(found)} and kubectl get "
                "resourcequota,serviceaccount show which"
            )
        return
    living = [pod for pod in drivers if pod.get("status", {}).get("phase") not in _OVER]
    yield from pod_failures(living)
    if age > _CREATION_GRACE and not pod_failures(living) and any(_is_creating(pod) for pod in living):
        secret = (
            f"Secret {credential.secret} with key {credential.key} is there, and that " if credential.secret else ""
        )
        yield f"its driver's container is not created yet: check that {secret}the image can be pulled"
    has_executors = found is not None and not is_local(found)
    if has_executors and application.state is ApplicationState.RUNNING and age > _EXECUTORS_GRACE:
        yield from _without_executors(application, observed, spark)


def _is_creating(pod: Manifest) -> bool:
    containers = pod.get("status", {}).get("containerStatuses", [])
    return any(each.get("state", {}).get("waiting", {}).get("reason") == "ContainerCreating" for each in containers)


def _without_executors(application: Application, observed: Observed, spark: Spark) -> Iterator[str]:
    """Said only where not a single executor runs: with fewer than wanted a batch takes longer, and that is all."""
    executors = [pod for pod in executors_of(application, observed) if not is_being_deleted(pod)]
    if any(pod.get("status", {}).get("phase") in {"Running", "Succeeded"} for pod in executors):
        return
    waiting = [pod for pod in executors if pod.get("status", {}).get("phase") not in _OVER]
    reasons = pod_failures(waiting)
    yield f"none of {spark.executor.instances} executors runs: " + (
        "; ".join(reasons)
        or "the log of the driver shows why; where a quota refuses them, lower spec.spark.executor, or set "
        "spec.spark.mode: Local"
    )


def executors_text(application: Application, observed: Observed, spark: Spark) -> str:
    """How many executors run, and what happened to others; empty where there are none yet."""
    executors = [pod for pod in executors_of(application, observed) if not is_being_deleted(pod)]
    if not executors:
        return ""
    running = sum(pod.get("status", {}).get("phase") == "Running" for pod in executors)
    lost = [_executor_memory("an executor was killed (OOMKilled)", spark)] if any(map(out_of_memory, executors)) else []
    waiting = [pod for pod in executors if pod.get("status", {}).get("phase") == "Pending"]
    return "; ".join([f"{running} of {spark.executor.instances} executors run", *lost, *pod_failures(waiting)])
