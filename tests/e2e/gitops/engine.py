"""Argo CD's engine over a Git repository: its agent applies committed manifests; its diff and health are the result.

The agent is the engine's own example program, unchanged. It syncs every few seconds, prunes objects that were removed
from the repository, and marks applied objects with an annotation, as Argo CD does with its tracking id.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import yaml

from eventconsumer_demo.cluster import Cluster
from tests.e2e.conftest import ROOT
from tests.support.apiserver import find_binary
from tests.support.azurite import free_port

MARK = "gitops-agent.argoproj.io/gc-mark"
HEALTH = ROOT / "gitops/argocd/health.lua"


def build() -> None:
    """Build the engine, once per machine."""
    local("tools", "--gitops")


def local(*arguments: str) -> str:
    """The output of a command of the local cluster."""
    command = [sys.executable, "-m", "local_cluster", *arguments]
    return subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()


def judge(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The engine's diff and health of {live, target} pairs."""
    asked = json.dumps({"script": HEALTH.read_text(), "resources": resources})
    answer = subprocess.run([find_binary("gitops")], input=asked, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


class Repository:
    """A Git repository with manifests, one file each."""

    def __init__(self, folder: Path) -> None:
        """Start an empty one."""
        self.folder = folder
        folder.mkdir()
        self._git("init", "-q")

    def commit(self, **files: list[dict[str, Any]] | None) -> None:
        """Write files, None removes one, and commit."""
        for name, documents in files.items():
            path = self.folder / f"{name}.yaml"
            if documents is None:
                path.unlink()
            else:
                path.write_text(yaml.safe_dump_all(documents))
        self._git("add", "--all")
        self._git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "change")

    def documents(self) -> list[dict[str, Any]]:
        """The committed manifests."""
        return [
            document for path in sorted(self.folder.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
        ]

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True)


class Agent:
    """The running engine."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, repository: Repository, log: Path) -> None:
        """Prepare; `start` starts."""
        self._cluster = cluster
        self._kubeconfig = kubeconfig
        self._repository = repository
        self._log_path = log
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Sync now and every three seconds."""
        self._log = self._log_path.open("ab")
        self._process = subprocess.Popen(
            [
                find_binary("agent"),
                str(self._repository.folder),
                "--kubeconfig",
                str(self._kubeconfig),
                "--default-namespace",
                self._cluster.namespace,
                "--resync-seconds",
                "3",
                "--port",
                str(free_port()),
            ],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | {"KUBECONFIG": str(self._kubeconfig)},
        )

    def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.terminate()
            self._process.wait(20)
        if self._log:
            self._log.close()

    def runs(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Its output."""
        return self._log_path.read_text()

    def targets(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """The committed manifests with the agent's mark, and the live objects.

        Argo CD also adds its tracking id to the committed manifests before it compares.
        """
        found = []
        for target in self._repository.documents():
            group, _, version = target["apiVersion"].rpartition("/")
            kind = f"{target['kind']}.{version}.{group}" if group else target["kind"]
            text = self._cluster.kubectl("get", kind, target["metadata"]["name"], "--ignore-not-found", "-o", "json")
            live = json.loads(text) if text else None
            if live:
                annotations = target["metadata"].setdefault("annotations", {})
                annotations[MARK] = live["metadata"].get("annotations", {}).get(MARK, "")
            found.append((target, live))
        return found

    def state(self) -> dict[str, dict[str, Any]]:
        """The engine's diff and health of all committed objects, by `<kind>/<name>`; missing ones are not synced."""
        targets = self.targets()
        verdicts = iter(judge([{"target": target, "live": live} for target, live in targets if live]))
        missing = {"synced": False, "health": "Missing", "message": ""}
        return {
            f"{target['kind']}/{target['metadata']['name']}": next(verdicts) if live else missing
            for target, live in targets
        }
