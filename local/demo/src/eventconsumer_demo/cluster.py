"""Access to Kubernetes: kubectl and helm, as users call them."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

from eventconsumer_demo.steps import DemoError


class Cluster:
    """A cluster and the namespace of the demo.

    Args:
        namespace: Namespace of operator, hosts and Spark.
        path: Folders of kubectl and helm, prepended to PATH.
        kubeconfig: File to use; None uses the user's current context.
    """

    def __init__(self, namespace: str, *, path: str = "", kubeconfig: Path | None = None) -> None:
        self.namespace = namespace
        self._env = dict(os.environ)
        if path:
            self._env["PATH"] = f"{path}:{self._env['PATH']}"
        if kubeconfig:
            self._env["KUBECONFIG"] = str(kubeconfig)

    def run(self, *command: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run a command and return its output.

        Raises:
            DemoError: The command failed or took longer than `timeout` seconds; its last lines are in `detail`.
        """
        try:
            result = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=timeout, env=self._env, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"`{' '.join(command[:4])} …` took longer than {timeout:.0f} s") from error
        except FileNotFoundError as error:
            raise DemoError(
                f"{command[0]} is not installed", hint="with CLUSTER=current, install kubectl and helm"
            ) from error
        if result.returncode:
            raise DemoError(f"`{' '.join(command[:4])} …` failed", detail=(result.stdout + result.stderr)[-4000:])
        return result.stdout

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """kubectl in the demo's namespace."""
        return self.run("kubectl", "--namespace", self.namespace, *arguments, stdin=stdin, timeout=timeout)

    def helm(self, *arguments: str, timeout: float = 180) -> str:
        """Helm in the demo's namespace."""
        return self.run("helm", "--namespace", self.namespace, *arguments, timeout=timeout)

    def apply(self, file: Path) -> None:
        """Apply a manifest to the demo's namespace."""
        self.kubectl("apply", "-f", str(file))

    def apply_filled(self, file: Path, values: Mapping[str, str], *, namespace: str) -> None:
        """Apply a manifest whose ${NAMES} are filled in from `values` to a namespace."""
        self.run(
            "kubectl", "-n", namespace, "apply", "-f", "-", stdin=Template(file.read_text()).safe_substitute(values)
        )

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace if it is missing, with the restricted Pod Security Standard enforced."""
        label = {"pod-security.kubernetes.io/enforce": "restricted", "eventconsumer.io/demo": "true"}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": label}}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def secret(self, name: str, **values: str) -> None:
        """Create or update a Secret."""
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def config_map(self, name: str, files: Mapping[str, str]) -> None:
        """Create or update a ConfigMap."""
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(files)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *what: str) -> dict[str, Any]:
        """`kubectl get … -o json`."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found

    @contextmanager
    def port_forward(self, namespace: str, target: str, port: int) -> Iterator[int]:
        """Forward a free local port to a service's port; yields the local port.

        Raises:
            DemoError: The port did not open within 20 s.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            local = int(probe.getsockname()[1])
        process = subprocess.Popen(
            ["kubectl", "--namespace", namespace, "port-forward", target, f"{local}:{port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._env,
        )
        try:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", local)) == 0:
                        break
                time.sleep(0.1)
            else:
                raise DemoError(f"kubectl port-forward to {namespace}/{target} did not open")
            yield local
        finally:
            process.terminate()
            process.wait(10)
