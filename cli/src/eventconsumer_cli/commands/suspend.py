"""`suspend` and `resume`: stop the hosts of a consumer, and start them again."""

import time
from typing import Annotated

import typer

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.commands.status import names
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD, name_of, namespace_of
from eventconsumer_cli.kube.reports import host_selector
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import WARN
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM

_PAUSE_SECONDS = 1.0
_WATCHED_MANAGERS = ("argocd", "kustomize-controller", "helm-controller", "flux")

Wait = Annotated[bool, typer.Option("--wait", help="Wait until the operation is complete.")]
Timeout = Annotated[int, typer.Option("--timeout", help="With --wait: timeout in seconds.", min=1)]


def suspend(session: Session, name: ConsumerName = None, wait: Wait = False, timeout: Timeout = 300) -> None:
    """Stop the hosts and start no Spark application. Leases, checkpoints and files are kept.

    Hosts commit their buffered events and release their leases. The hub keeps new events for its retention time.
    """
    consumer = _set(session, session.consumer(name), suspended=True)
    if wait:
        _wait(session, consumer, timeout, suspended=True)


def resume(session: Session, name: ConsumerName = None, wait: Wait = False, timeout: Timeout = 300) -> None:
    """Start the hosts again. They continue at the end of the files."""
    consumer = _set(session, session.consumer(name), suspended=False)
    if wait:
        _wait(session, consumer, timeout, suspended=False)


def _set(session: Session, consumer: Manifest, *, suspended: bool) -> Manifest:
    before = bool(consumer["spec"].get("suspend"))
    if before is not suspended:
        change = {"spec": {"suspend": suspended}}
        consumer = session.cluster.merge(EVENT_CONSUMER, namespace_of(consumer), name_of(consumer), change)
    word = "suspended" if suspended else "resumed"
    already = "is not suspended" if not suspended else "is already suspended"
    text = f"{name_of(consumer)} {already if before is suspended else word}"
    session.out.show(consumer, lambda: [text], names([consumer]))
    if before is not suspended:
        note_manager(session, consumer, "spec.suspend")
    return consumer


def note_manager(session: Session, consumer: Manifest, field: str) -> None:
    """Say which GitOps operator manages the spec, by metadata.managedFields, after a field of it was changed."""
    entries = consumer["metadata"].get("managedFields", [])
    managers = sorted({str(each.get("manager", "")) for each in entries if "f:spec" in each.get("fieldsV1", {})})
    if manager := next((each for each in managers if each.startswith(_WATCHED_MANAGERS)), ""):
        session.out.note(f"{manager} manages this resource and may reset {field}: change it there too", WARN)


def _wait(session: Session, consumer: Manifest, timeout: int, *, suspended: bool) -> None:
    deadline = time.monotonic() + timeout
    namespace, name = namespace_of(consumer), name_of(consumer)
    while True:
        if suspended:
            left = sorted(map(name_of, session.cluster.list(POD, namespace, host_selector(consumer))))
            if not left:
                session.out.note("no host is running")
                return
            state = f"still running: {', '.join(left)}"
        else:
            status = session.cluster.get(EVENT_CONSUMER, namespace, name).get("status", {})
            ready: Manifest = next((each for each in status.get("conditions", []) if each["type"] == "Ready"), {})
            seen = status.get("observedGeneration", 0) >= consumer["metadata"].get("generation", 0)
            if seen and ready.get("status") == "True":
                session.out.note(ready.get("message") or "ready")
                return
            state = ready.get("message") or "the operator has not written a status yet"
        if time.monotonic() > deadline:
            raise Failed(
                f"{name} was not {'stopped' if suspended else 'ready'} after {timeout} s: {state}",
                f"`{PROGRAM} status {name} -n {namespace}` shows details",
            )
        time.sleep(_PAUSE_SECONDS)
