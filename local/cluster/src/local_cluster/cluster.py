"""Start, inspect and remove the cluster.

`up` always ends with a running cluster: it does not change a healthy cluster of this version, restarts missing
processes of a cluster with its objects kept, and removes and recreates a cluster without processes (after a crash or a
reboot).
"""

import contextlib
import datetime
import hashlib
import json
import os
import time
from dataclasses import dataclass
from itertools import groupby

from local_cluster import host, network, packages, sweep
from local_cluster.components import Component, components
from local_cluster.errors import CommandFailed, Conflict, LeftoverStuck, NotReady
from local_cluster.forwarding import Forwarding
from local_cluster.gotoolchain import find_go
from local_cluster.layout import NODE_NAME, TOOL_MODULES, Layout, Network
from local_cluster.lock import exclusive
from local_cluster.mirror import debian_mirror
from local_cluster.pki import write_pki
from local_cluster.probes import Prober
from local_cluster.processes import ProcessTable
from local_cluster.progress import Progress
from local_cluster.render import HostTraits, config_files, containerd
from local_cluster.runtime import Containerd, load_single_binary
from local_cluster.shell import run
from local_cluster.tools import ToolModule, Tools

DOWN_STEPS = 2
_NODE_PATIENCE = 120.0
_FOR_USERS = ("kubectl", "helm")


@dataclass(frozen=True)
class ComponentStatus:
    """The state of one process of the cluster.

    Attributes:
        name: The component.
        pid: Its process id; None if it does not run.
        ready: Whether its probe succeeds.
    """

    name: str
    pid: int | None
    ready: bool


class Cluster:
    """The one cluster of this machine."""

    def __init__(self, layout: Layout, addresses: Network) -> None:
        """Read the sources; changes nothing."""
        self.layout = layout
        self.network = addresses
        self.tools = Tools(TOOL_MODULES, layout.cache)
        self.processes = ProcessTable(layout.records, layout.logs, Prober(layout.pki))
        self.containerd = Containerd(layout.containerd_socket)
        self.components = components(layout, addresses, self.tools.path)

    @property
    def pause_image(self) -> str:
        """The sandbox image: its tag is the version of the program in it."""
        return f"localhost/eventconsumer/pause:{self.tools.path('pause').parent.name.removeprefix('pause-')}"

    def up(self, progress: Progress, *, recreate: bool = False) -> None:
        """Start or repair the cluster.

        Args:
            progress: Shows the steps.
            recreate: Replace a cluster of another version, losing its objects.

        Raises:
            ClusterError: With the cause and the remedy.
        """
        host.check_rights()
        with exclusive(self.layout.lock):
            self._prepare(progress, recreate=recreate)
            for wave, members in groupby(self.components, key=lambda component: component.wave):
                group = list(members)
                with progress.step("starting " + ", ".join(component.name for component in group)):
                    self._start(group)
                    if wave == 0:
                        self._seed()
            with progress.step("waiting for the node"):
                self._wait_for_node()
            self.layout.fingerprint.write_text(self.fingerprint())

    def down(self, progress: Progress, *, purge: bool = False) -> None:
        """Stop everything and remove all files except images and binaries; two steps.

        Args:
            progress: Shows the steps.
            purge: Remove the images, too.
        """
        host.check_rights()
        with exclusive(self.layout.lock), exclusive(self.layout.build_lock):
            with progress.step("stopping the cluster"):
                emptied = self._stop()
            with progress.step("removing its traces"):
                self._sweep(progress, store_is_empty=emptied)
                sweep.unmount(self.layout.build_storage)  # a killed build's; a running one holds the lock
                if purge:
                    sweep.remove_folders([self.layout.containerd_root, self.layout.build_storage])

    def tool_steps(self) -> int:
        """The number of steps of `build_tools`."""
        return 1 + max(1, len(self.tools.missing()))

    def up_steps(self) -> int:
        """The number of steps of `up`; two fewer if the cluster runs."""
        return self.tool_steps() + 5

    def build_tools(self, progress: Progress) -> None:
        """Install missing packages and build missing binaries."""
        with progress.step("checking Debian packages"):
            if installed := packages.install(packages.RUNTIME):
                progress.note(f"installed {', '.join(installed)}")
        missing = self.tools.missing()
        for module in missing:
            with progress.step(f"building {module.name} (once)", self.tools.log(module)):
                self.tools.build(module, lambda: find_go(debian_mirror()))
        if not missing:
            with progress.step("all binaries are complete"):
                pass
        self.tools.link(self.layout.bin, _FOR_USERS)

    def build_extra(self, module: ToolModule, progress: Progress) -> None:
        """Build a program that is not part of the cluster; one step."""
        tools = Tools(TOOL_MODULES, self.layout.cache, (module,))
        with progress.step(f"building {module.name} (once)", tools.log(module)):
            tools.build(module, lambda: find_go(debian_mirror()))

    def status(self) -> list[ComponentStatus]:
        """The state of each process, in starting order."""
        alive = self.processes.alive()
        return [
            ComponentStatus(
                name=component.name,
                pid=alive[component.name].pid if component.name in alive else None,
                ready=component.name in alive and self.processes.is_ready(component),
            )
            for component in self.components
        ]

    def runs(self) -> bool:
        """Whether all processes run and are ready."""
        return all(component.ready for component in self.status())

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator.

        Raises:
            CommandFailed: It failed.
        """
        command = [str(self.tools.path("kubectl")), f"--kubeconfig={self.layout.kubeconfig}", *arguments]
        return run(command, stdin=stdin, timeout=60)

    def fingerprint(self) -> str:
        """Identifies all parts of a running cluster: the binaries and the command lines."""
        digest = hashlib.sha256(self.tools.fingerprint().encode())
        for component in self.components:
            digest.update("\0".join(component.argv).encode())
        any_machine = HostTraits(may_lower_oom_score=True, snapshotter="overlayfs", cni_plugins="/")
        digest.update(json.dumps(config_files(self.layout, self.network, any_machine, self.pause_image)).encode())
        return digest.hexdigest()[:16]

    def _prepare(self, progress: Progress, *, recreate: bool) -> None:
        self.build_tools(progress)
        with progress.step("looking for a former cluster"):
            alive = self.processes.alive()
            recorded = self._recorded_fingerprint()  # None: its start was interrupted, and it was never used
            same = recorded == self.fingerprint()
            if alive and recorded is not None and not same and not recreate:
                raise Conflict(
                    "A cluster of another version of this repository runs. Replace it with `python -m local_cluster up "
                    "--recreate`; its objects are lost, its images are kept."
                )
            if alive and same:
                running, all_of_them = len(alive), len(self.components)
                missing = "" if running == all_of_them else "; starting missing processes"
                progress.note(f"{running} of {all_of_them} processes run{missing}")
                self._set_up_network()  # if other programs removed its interface or rules
                return
            self._sweep(progress, store_is_empty=self._stop())
            host.check_alone(self.layout.live)
            network.check_free(self.network)
        with progress.step("writing certificates and configuration"):
            self._configure()
            self._set_up_network()

    def _set_up_network(self) -> None:
        network.set_up(self.network, Forwarding(self.layout.forwarding))

    def _configure(self) -> None:
        layout = self.layout
        layout.state.chmod(0o700)
        for folder in (layout.live, layout.config / "cni", layout.live / "run"):
            folder.mkdir(parents=True, exist_ok=True)
        write_pki(layout.pki, self.network, datetime.datetime.now(datetime.UTC))
        files = config_files(layout, self.network, host.traits(layout.state), self.pause_image)
        for name, content in files.items():
            (layout.config / name).write_text(content)
        layout.kubeconfig.touch(mode=0o600)
        layout.kubeconfig.write_bytes((layout.pki / "admin.kubeconfig").read_bytes())

    def _start(self, group: list[Component]) -> None:
        alive = self.processes.alive()
        for component in group:
            if component.name not in alive:
                self.processes.start(component, self._environment())
        for component in group:
            self.processes.wait_ready(component)

    def _environment(self) -> dict[str, str]:
        """Without proxies and credentials of the user's shell: the cluster connects only to itself."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.layout.live), "LANG": "C.UTF-8"}

    def _seed(self) -> None:
        """Create the requirements of wave 1: the sandbox image and the rights of CoreDNS."""
        if self.pause_image not in self.containerd.images():
            load_single_binary(self.containerd, self.tools.path("pause"), self.pause_image)
        self.kubectl("apply", "-f", str(self.layout.config / "bootstrap.yaml"))

    def _wait_for_node(self) -> None:
        deadline = time.monotonic() + _NODE_PATIENCE
        jsonpath = '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}'
        answer = ""
        while time.monotonic() < deadline:
            with contextlib.suppress(CommandFailed):
                answer = self.kubectl("get", "node", NODE_NAME, "-o", f"jsonpath={jsonpath}")
                default = self.kubectl("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name")
                if answer.startswith("True") and default:
                    return
            time.sleep(0.3)
        raise NotReady(
            "kubelet",
            f"did not make the node ready ({answer or 'it did not register'})",
            "",
            self.processes.log("kubelet"),
        )

    def _stop(self) -> bool:
        """Stop in the opposite order of starting, removing containers while containerd still can.

        Returns:
            Whether containerd's store holds no container any more.
        """
        emptied = False
        for component in reversed(self.components):
            if component.name == "containerd" and "containerd" in self.processes.alive():
                with contextlib.suppress(CommandFailed, LeftoverStuck):  # the sweep tries again without the shims
                    self.containerd.discard_containers()
                    emptied = True
            self.processes.stop(component.name)
        return emptied

    def _sweep(self, progress: Progress, *, store_is_empty: bool) -> None:
        programs = {component.argv[0].rsplit("/", 1)[-1] for component in self.components}
        found = sweep.sweep(self.layout, self.network, programs)
        if found:
            progress.note(f"removed {' and '.join(found)} that were left behind")
        if self.layout.live.exists() and not store_is_empty:
            self._forget_containers()
        sweep.remove_files(self.layout)

    def _forget_containers(self) -> None:
        """Remove the containers of a dead cluster from containerd's store, by a containerd that starts no pods."""
        if not self.layout.containerd_root.exists():
            return
        config = self.layout.live / "containerd-sweep.toml"
        traits = host.traits(self.layout.state)
        config.write_text(containerd(self.layout, traits, self.pause_image, with_pods=False))
        self.layout.containerd_socket.parent.mkdir(parents=True, exist_ok=True)
        original = next(component for component in self.components if component.name == "containerd")
        sweeper = Component("containerd-sweep", ("containerd", f"--config={config}"), original.probe, wave=0)
        self.processes.start(sweeper, self._environment())
        try:
            self.processes.wait_ready(sweeper)
            self.containerd.discard_containers()
        finally:
            self.processes.stop(sweeper.name)

    def _recorded_fingerprint(self) -> str | None:
        """The fingerprint of the running cluster; None if its start did not finish."""
        try:
            return self.layout.fingerprint.read_text()
        except FileNotFoundError:
            return None
