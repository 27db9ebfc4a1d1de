"""The command line: `python -m local_cluster …`; results on standard output, progress on standard error."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from eventconsumer_api.shared.console import Console
from eventconsumer_api.shared.terminal import guarded
from local_cluster.cluster import DOWN_STEPS, Cluster
from local_cluster.errors import ClusterError
from local_cluster.images.builder import Builder
from local_cluster.images.catalog import DOCKERFILES, EXTRA, LOCAL_REGISTRY
from local_cluster.layout import Layout, Network
from local_cluster.progress import Progress
from local_cluster.tools import GITOPS, KUBEFLOW

app = typer.Typer(
    help="A real single-node Kubernetes without Docker, for development.", no_args_is_help=True, add_completion=False
)
_console = Console(stderr=True, soft_wrap=True)


Names = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Some of: {', '.join(sorted(DOCKERFILES))}; all of these if none is given. On request only: "
        f"{', '.join(sorted(EXTRA))}."
    ),
]
Registry = Annotated[
    str, typer.Option(envvar="REGISTRY", help="Prefix of the references; a registry your cluster pulls from.")
]


def _image_names(names: list[str] | None) -> list[str]:
    known = [*DOCKERFILES, *EXTRA]
    if unknown := set(names or ()) - set(known):
        raise typer.BadParameter(f"no such image: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return [name for name in known if name in (names or DOCKERFILES)]


def _cluster() -> Cluster:
    return Cluster(Layout.from_environment(), Network())


@app.command()
def up(
    recreate: Annotated[
        bool, typer.Option(help="Replace a running cluster of another version; its objects are lost.")
    ] = False,
) -> None:
    """Start the cluster, or repair it; no action if it is healthy."""
    cluster = _cluster()
    progress = Progress(cluster.up_steps())
    cluster.up(progress, recreate=recreate)
    progress.finish(f"The cluster runs. KUBECONFIG={cluster.layout.kubeconfig}")


@app.command()
def down(purge: Annotated[bool, typer.Option(help="Remove the images, too.")] = False) -> None:
    """Stop the cluster and remove all of its files; images and binaries are kept for the next start."""
    progress = Progress(DOWN_STEPS)
    _cluster().down(progress, purge=purge)
    progress.finish("The cluster was removed.")


@app.command()
def status() -> None:
    """Show the processes of the cluster; the exit code is 0 if all are ready, 3 otherwise."""
    cluster = _cluster()
    table = Table("component", "pid", "ready", box=None)
    components = cluster.status()
    for component in components:
        table.add_row(component.name, str(component.pid or "-"), "yes" if component.ready else "no")
    Console().print(table)
    print(f"Logs: {cluster.layout.logs}/<component>.log")
    if not all(component.ready for component in components):
        raise typer.Exit(3)


@app.command()
def tools(
    gitops: Annotated[bool, typer.Option(help="Build Argo CD's engine, too, which only tests need.")] = False,
    kubeflow: Annotated[bool, typer.Option(help="Build the kubeflow Spark operator, which only tests need.")] = False,
) -> None:
    """Install missing packages and build missing binaries, without a start. The first time takes minutes."""
    cluster = _cluster()
    extra = [module for module, wanted in ((GITOPS, gitops), (KUBEFLOW, kubeflow)) if wanted]
    progress = Progress(cluster.tool_steps() + len(extra))
    cluster.build_tools(progress)
    for module in extra:
        cluster.build_extra(module, progress)
    progress.finish("The cluster's binaries are complete.")


@app.command()
def build(names: Names = None, registry: Registry = LOCAL_REGISTRY) -> None:
    """Build the images that changed, and load them into the local cluster if it runs."""
    builder = Builder(Layout.from_environment(), _image_names(names), registry)
    progress = Progress(builder.steps())
    builder.build(progress)
    progress.finish("The images are built.")


@app.command()
def load(names: Names = None, registry: Registry = LOCAL_REGISTRY) -> None:
    """Load the built images into the local cluster, or push them to the given registry."""
    builder = Builder(Layout.from_environment(), _image_names(names), registry)
    progress = Progress(len(builder.images))
    builder.load(progress)
    progress.finish("The cluster has the images.")


@app.command()
def images(names: Names = None, registry: Registry = LOCAL_REGISTRY) -> None:
    """Print the full reference of each image's current version as JSON; builds nothing."""
    found = Builder(Layout.from_environment(), _image_names(names), registry).images
    print(json.dumps({image.name: image.reference for image in found}, indent=2))


@app.command()
def prefetch() -> None:
    """Build missing binaries and images in parallel, without a start. The first time takes minutes."""
    cluster, builder = _cluster(), Builder(Layout.from_environment(), _image_names(None))
    progress = Progress(cluster.tool_steps() + builder.steps())
    # Most of an image's build waits for downloads and the disk; the Go compiler uses every core.
    with ThreadPoolExecutor() as pool:
        images = pool.submit(builder.build, progress)
        cluster.build_tools(progress)
        images.result()
    progress.finish("The cluster's binaries and the images are complete.")


@app.command()
def kubeconfig() -> None:
    """Print the path of the administrator's kubeconfig."""
    print(Layout.from_environment().kubeconfig)


@app.command()
def path() -> None:
    """Print the folder that holds kubectl and helm."""
    print(Layout.from_environment().bin)


@app.command()
def env() -> None:
    """Print shell lines that configure kubectl and helm for the cluster: `eval "$(python -m local_cluster env)"`."""
    layout = Layout.from_environment()
    print(f'export KUBECONFIG="{layout.kubeconfig}"\nexport PATH="{layout.bin}:$PATH"')


@guarded()
def main() -> None:
    """Run a command; an expected error is a message and exit code 1, not a traceback."""
    os.environ["PATH"] += os.pathsep + os.pathsep.join(
        ("/usr/local/sbin", "/usr/sbin", "/sbin")
    )  # sudo-less root shells
    try:
        app()
    except ClusterError as error:
        _console.print(Text.assemble(("error:", "red"), f" {error}"))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
