"""`python -m eventconsumer_demo up|down`, for `make demo` and `make demo-down`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_api.shared.terminal import guarded
from eventconsumer_demo import failure, run
from eventconsumer_demo.cluster import Cluster
from eventconsumer_demo.steps import DemoError, Steps, console

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The EventConsumer demo on one machine.")
NAMESPACE = "eventconsumer-demo"
EVENTS = Annotated[int, typer.Option(help="Events to publish.", min=1)]
TIMEOUT = Annotated[float, typer.Option(help="Maximum wait for the result, seconds.")]


def _local(*arguments: str) -> None:
    """Run a command of local_cluster and show its progress."""
    result = subprocess.run([sys.executable, "-m", "local_cluster", *arguments], check=False)
    if result.returncode:
        raise DemoError(f"`local_cluster {' '.join(arguments)}` failed", hint="its message is above")


def _read(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "local_cluster", *arguments], check=False, stdout=subprocess.PIPE, text=True
    )
    if result.returncode:
        raise DemoError(f"`local_cluster {' '.join(arguments)}` failed", hint="its message is above")
    return result.stdout.strip()


def _current() -> bool:
    """Whether to use the user's own cluster."""
    choice = os.environ.get("CLUSTER", "local")
    if choice not in ("local", "current"):
        raise DemoError(f"unknown value CLUSTER={choice}", hint="use CLUSTER=local (default) or CLUSTER=current")
    return choice == "current"


def _cluster() -> Cluster:
    if _current():
        return Cluster(NAMESPACE)
    return Cluster(NAMESPACE, path=_read("path"), kubeconfig=Path(_read("kubeconfig")))


def _up(steps: Steps, events: int, timeout: float) -> Cluster:
    images_of = "images: operator, processor, spark, and the emulators of Azure"
    with steps.step(f"Kubernetes' programs, and {images_of}" if not _current() else images_of.capitalize()):
        _local("prefetch" if not _current() else "build")
    with steps.step("A single-node Kubernetes" if not _current() else "Your current cluster"):
        if not _current():
            _local("up")
        cluster = _cluster()
        cluster.run("kubectl", "get", "nodes")
        _local("load")
        images: dict[str, str] = json.loads(_read("images"))
    try:
        _product(steps, cluster, images, events, timeout)
    except DemoError as error:
        failure.explain(error, cluster, run.CONSUMER)
        raise typer.Exit(1) from error
    return cluster


def _product(steps: Steps, cluster: Cluster, images: dict[str, str], events: int, timeout: float) -> None:
    with steps.step("The operator: helm install"):
        cluster.ensure_namespace(NAMESPACE)
        run.install_operator(cluster, images)
    with steps.step("An empty Event Hub and an empty storage account"):
        run.reset(cluster)
        run.stand_ins(cluster, images)
    first = run.Wave(1, 0, events)
    with steps.step(f"A publisher of {events:,} events, and one EventConsumer: kubectl apply -f examples/local.yaml"):
        run.start_publisher(cluster, images, first)
        run.apply_consumer(cluster)
    with steps.step("A query by SQL over columns of the bodies, in the table over the files: no Spark"):
        rows = run.query_columns(cluster, timeout)
    run.show_query(rows)
    with steps.step("Draining into files, and Spark over each batch of files"):
        run.follow(cluster, first, timeout)
    with steps.step("Reading both Delta tables without Spark, and comparing them with the sent events"):
        found = run.verify(cluster, [first])
    run.show_result(*found)
    second = run.Wave(2, events, max(1, events // 5))
    with steps.step(f"A second wave of {second.events:,} events: the resident driver processes the new files"):
        run.start_publisher(cluster, images, second)
        run.follow(cluster, second, timeout)
        found = run.verify(cluster, [first, second])
    run.show_result(*found)
    with steps.step("Auditing every file: kubectl exec orders-host-0 -- eventconsumer audit --deep --hub"):
        verdict = run.audit(cluster)
    run.show_audit(verdict)


@app.command()
def up(events: EVENTS = 100_000, timeout: TIMEOUT = 900) -> None:
    """Install everything, run the demo, check the result."""
    steps = Steps(10)
    try:
        _up(steps, events, timeout)
        local = "" if _current() else f"export KUBECONFIG={_read('kubeconfig')} PATH={_read('path')}:$PATH\n"
    except DemoError as error:
        failure.explain(error, None, run.CONSUMER)
        raise typer.Exit(1) from error
    console.print(f"\nFinished in {steps.elapsed:.0f} s. Look around:\n")
    console.print(
        f"{local}kubectl config set-context --current --namespace {NAMESPACE}\n"
        "kubectl get eventconsumers\nkubectl describe eventconsumer orders\nkubectl get pods,jobs\n"
        "kubectl logs orders-host-0\n",
        soft_wrap=True,
    )
    console.print("Remove everything: make demo-down")


@app.command()
def down() -> None:
    """Remove the demo: the local cluster itself, or on another cluster the demo's namespaces and release."""
    try:
        if not _current():
            _local("down")
            return
        cluster = _cluster()
        cluster.kubectl("delete", "eventconsumer", "--all", "--ignore-not-found", timeout=180)
        cluster.helm("uninstall", run.RELEASE, "--ignore-not-found", "--wait")
        cluster.run("kubectl", "delete", "namespace", "-l", run.DEMO_LABEL, "--ignore-not-found", timeout=180)
    except DemoError as error:
        failure.explain(error, None, run.CONSUMER)
        raise typer.Exit(1) from error


@guarded()
def main() -> None:
    """Run a command."""
    app()


if __name__ == "__main__":
    main()
