"""`doctor`: check the installation and consumers, with a remedy for each problem."""

from typing import Annotated

import typer

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_cli.doctor import consumer as one
from eventconsumer_cli.doctor import installation, rights, sharing
from eventconsumer_cli.doctor.findings import Finding, exit_code, summary, view
from eventconsumer_cli.errors import Forbidden, NotFound
from eventconsumer_cli.hosttool import toolbox
from eventconsumer_cli.kube.kinds import name_of, namespace_of
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.session import Session


def doctor(
    session: Session,
    name: ConsumerName = None,
    *,
    inside: Annotated[
        bool,
        typer.Option(
            "--inside/--no-inside",
            help="Check hub and storage from a pod; creates a temporary pod if no host runs, and one for a schema "
            "registry.",
        ),
    ] = True,
) -> None:
    """Find problems: permissions, CRD, operator, versions, Secrets, images, hub, storage, clock, dead letters, sharing,
    the endpoint of notices, the schema registry.

    Changes nothing. Exit code: 0 no problem, 1 warnings, 2 errors.
    """
    consumers, findings = _consumers(session, name)
    namespaces = sorted(
        {*map(namespace_of, consumers), *([] if session.options.all_namespaces else [session.namespace])}
    )
    for namespace in namespaces:
        findings += rights.look(session.cluster, namespace)
    findings += installation.look(session.cluster, namespaces)
    shared = list(sharing.look(session.cluster, consumers, session.namespace))
    tools = toolbox(session) if inside else None
    for consumer in consumers:
        findings += one.look(session.cluster, tools, consumer)
        about = f"{namespace_of(consumer)}/{name_of(consumer)}"
        findings += [each for each in shared if each.consumer == about]
    code = exit_code(findings)
    document = {"version": 1, "exitCode": int(code), "findings": [each.document() for each in findings]}
    session.out.show(document, lambda: [*view(findings), summary(findings)], [each.check for each in findings])
    if code:
        raise typer.Exit(code)


def _consumers(session: Session, name: str | None) -> tuple[list[Manifest], list[Finding]]:
    """The consumers to check; no consumer, or no permission to list them, is a separate finding."""
    try:
        return session.consumers(name), []
    except (NotFound, Forbidden):
        if name is not None:
            raise
        return [], []
