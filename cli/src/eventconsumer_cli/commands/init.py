"""`init`: the manifest of a first consumer, from answers, checked against hub and storage from inside the cluster."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from eventconsumer_api.commands import CHECK, PrintFormat
from eventconsumer_api.kube.labels import HOST_SERVICE_ACCOUNT
from eventconsumer_cli.doctor import sharing
from eventconsumer_cli.doctor.findings import Finding, Level, exit_code, view
from eventconsumer_cli.doctor.inside import checks
from eventconsumer_cli.errors import ClusterError, Failed, Forbidden, NotFound, RefusedError
from eventconsumer_cli.hosttool import toolbox
from eventconsumer_cli.init.manifest import Answers, host_config, manifest, render
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from eventconsumer_cli.kube.releases import Settings, serving
from eventconsumer_cli.output import Format
from eventconsumer_cli.session import Session

_Text = str | None


def init(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of the consumer to be made.")] = None,
    *,
    hub: Annotated[_Text, typer.Option("--hub", help="Name of the Event Hub.")] = None,
    hub_namespace: Annotated[
        _Text, typer.Option("--hub-namespace", help="Its namespace, such as shop.servicebus.windows.net.")
    ] = None,
    consumer_group: Annotated[str, typer.Option("--consumer-group", help="Consumer group to read with.")] = "$Default",
    hub_secret: Annotated[
        _Text, typer.Option("--hub-secret", help="Secret, or Secret/key, with the hub's connection string.")
    ] = None,
    storage_secret: Annotated[
        _Text,
        typer.Option("--storage-secret", help="Secret, or Secret/key, with the storage account's connection string."),
    ] = None,
    client_id: Annotated[
        _Text, typer.Option("--client-id", help="Client id of a workload identity, instead of Secrets.")
    ] = None,
    storage_account_url: Annotated[
        _Text, typer.Option("--storage-account-url", help="Blob endpoint, such as https://shop.blob.core.windows.net.")
    ] = None,
    lease_container: Annotated[
        _Text, typer.Option("--checkpoint-container", help="Container of leases [leases].")
    ] = None,
    container: Annotated[_Text, typer.Option("--container", help="Container of drained files [drained].")] = None,
    spark_output: Annotated[
        _Text,
        typer.Option("--spark-output", help="Output of Spark, such as abfss://results@…; without it, Spark is off."),
    ] = None,
    file: Annotated[str, typer.Option("--file", "-f", help="Output file; - for stdout [<name>.yaml].")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check hub and storage from a temporary pod.")
    ] = True,
    image: Annotated[
        _Text, typer.Option("--image", help="Processor image of that pod. Default: that of the namespace's release.")
    ] = None,
) -> None:
    """Write the manifest of a consumer from options or answers, and check it first.

    Creates only a temporary pod for the check, with the Secrets of a host. Exit code 2: the check failed.
    """
    given = {
        "name": name,
        "hub": hub,
        "hub_namespace": hub_namespace,
        "consumer_group": consumer_group,
        "hub_secret": hub_secret,
        "storage_secret": storage_secret,
        "client_id": client_id,
        "storage_account_url": storage_account_url,
        "lease_container": lease_container,
        "sink_container": container,
        "spark_output": spark_output,
    }
    asked = {key: value for key, value in given.items() if value is not None}
    if sys.stdin.isatty():
        asked = ask(asked, lambda text, default: str(typer.prompt(text, default=default, err=True)))
    if "name" not in asked:
        raise Failed(
            "specify the name of the consumer",
            "kubectl eventconsumer init NAME --hub HUB --hub-secret NAME --storage-secret NAME",
        )
    resource = manifest(Answers(namespace=session.namespace, **asked))
    target = file or f"{asked['name']}.yaml"
    if target != "-" and Path(target).exists() and not force:
        raise RefusedError(f"{target} already exists", "name another --file, or add --force")
    _judge(session, resource)
    _compare(session, resource)
    if check:
        _look_inside(session, resource, image)
    _write(session, resource, target)


def ask(given: dict[str, str], prompt: Callable[[str, str | None], str]) -> dict[str, str]:
    """Ask for missing answers.

    Args:
        given: Answers so far, by field of `Answers`.
        prompt: Asks a question with a default; None: an answer is required.
    """
    found = dict(given)

    def need(field: str, text: str, default: str | None) -> None:
        if field not in found:
            found[field] = prompt(text, default)

    need("name", "Name of the consumer", None)
    need("hub", "Name of the Event Hub (empty: EntityPath of the connection string)", "")
    if not found.keys() & {"client_id", "hub_secret", "storage_secret"}:
        how = prompt("Sign in by connection strings in Secrets, or by workload identity (secrets/identity)", "secrets")
        if how.strip().lower().startswith("i"):
            need("client_id", "Client id of the identity", None)
    if found.get("client_id"):
        need("hub_namespace", "Namespace of the hub, such as shop.servicebus.windows.net", None)
        need("storage_account_url", "Storage account, such as https://shop.blob.core.windows.net", None)
    else:
        need("hub_secret", "Secret with the hub's connection string, NAME or NAME/KEY", f"{found['name']}-hub")
        need("storage_secret", "Secret with the storage account's, NAME or NAME/KEY", f"{found['name']}-storage")
    need("lease_container", "Container of leases and checkpoints", "leases")
    need("sink_container", "Container of drained files", "drained")
    need("spark_output", "Where Spark writes its results (empty: no Spark)", "")
    return found


def _judge(session: Session, resource: dict[str, Any]) -> None:
    """Validate it by the API server, as `kubectl apply --dry-run=server` does; otherwise only the models have."""
    try:
        session.cluster.create(EVENT_CONSUMER, resource, dry_run=True)
        session.out.note("the API server would accept it")
    except RefusedError as error:
        if "already exists" in str(error):
            raise RefusedError(str(error), "use another name, or edit the existing one") from error
        raise
    except (ClusterError, NotFound) as error:  # includes Forbidden
        session.out.note(f"not validated by the API server: {error}")


def _compare(session: Session, resource: dict[str, Any]) -> None:
    """Find consumers with which it would share leases, files or an output.

    Raises:
        RefusedError: A consumer was found, and the user did not confirm.
    """
    try:
        found = [each for each in sharing.look(session.cluster, [resource], session.namespace) if each.remedy]
    except ClusterError as error:
        session.out.note(f"not compared with other consumers: {error}")
        return
    for line in view(found):
        session.out.err.print(line)
    if any(each.level is Level.BROKEN for each in found) and not session.out.confirm("Write it anyway?"):
        raise RefusedError("nothing was written", "change --hub, --consumer-group or --container")


def _look_inside(session: Session, resource: dict[str, Any], image: str | None) -> None:
    """Check hub and storage from a pod.

    Raises:
        RefusedError: The check failed, and the user did not confirm.
    """
    settings = _settings(session, image)
    config = host_config(resource, settings)
    place = toolbox(session).for_config(
        session.namespace, config, settings.processor_image, settings.host_service_account
    )
    with place as tool:
        findings: list[Finding] = checks(
            tool, CHECK.arguments(config_json="-", output=PrintFormat.JSON), config.to_json().encode()
        )
    for line in view([replace(each, consumer=resource["metadata"]["name"]) for each in findings]):
        session.out.err.print(line)
    if any(each.level is Level.BROKEN for each in findings) and not session.out.confirm("Write it anyway?"):
        raise RefusedError("nothing was written", "correct the failed checks, or add --no-check")
    if exit_code(findings) == 0:
        session.out.note("hub and storage can be reached")


def _settings(session: Session, image: str | None) -> Settings:
    """Settings of the release that will serve it; no release is required if the user names an image.

    Raises:
        NotFound: There is none.
        Forbidden: There is none that the user may read.
        RefusedError: A record is damaged, or several releases claim the namespace.
    """
    try:
        found = serving(session.cluster, session.namespace).settings
    except (NotFound, Forbidden) as error:
        if image is None:
            remedy = f"{error.remedy}; or name a processor image that you trust with --image, or add --no-check"
            raise type(error)(str(error), remedy) from error
        return Settings(processor_image=image, host_service_account=HOST_SERVICE_ACCOUNT)
    return found.model_copy(update={"processor_image": image}) if image else found


def _write(session: Session, resource: dict[str, Any], target: str) -> None:
    if session.options.output in (Format.JSON, Format.YAML):
        session.out.show(resource, list)
        return
    if target == "-":
        session.out.raw(render(resource))
        return
    try:
        Path(target).write_text(render(resource), encoding="utf-8")
    except OSError as error:
        raise Failed(f"cannot write {target}: {error.strerror}") from error
    session.out.note(f"written to {target}; next: kubectl apply -f {target}")
