"""A real Kubernetes API server without a cluster: etcd and kube-apiserver as processes, ready in seconds.

No controller, scheduler or kubelet runs, so a test controls pods and Jobs by writing their status. Schemas, CEL rules,
server-side apply and RBAC are the real ones.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.azurite import free_port
from tests.support.waiting import HANG_SECONDS

ADMIN = "admin"
READY_SECONDS = 90


def find_binary(name: str) -> Path:
    """The path of a binary that the local cluster built.

    Raises:
        RuntimeError: It was not built yet.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "eventconsumer" / "bin"
    found = sorted((path for path in cache.rglob(name) if path.is_file()), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RuntimeError(f"{name} is not under {cache}: run `python -m local_cluster tools`")
    return found[-1]


@dataclass(frozen=True)
class Request:
    """One request in the API server's audit log.

    Attributes:
        verb: As RBAC names it: get, list, watch, create, update, patch, delete.
        group: API group; empty: core.
        resource: With its subresource: eventconsumers/status; empty: no resource (discovery).
        namespace: Of the object or list; empty: none, or all.
        name: Of the object; empty for lists.
        code: HTTP status of the answer.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int


class ApiServerProcess:
    """etcd and kube-apiserver; users are given by name and have the rights that RBAC grants them."""

    def __init__(self, folder: Path, users: tuple[str, ...] = ()) -> None:
        """Prepare keys and tokens in `folder`; `ADMIN` may do everything, the other `users` only what roles say."""
        self.folder = folder
        self.port = free_port()
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api: subprocess.Popen[bytes] | None = None
        self._tokens = {user: f"token-of-{number}" for number, user in enumerate((ADMIN, *users))}
        lines = [
            f'{token},{user},{user},"{"system:masters" if user == ADMIN else "system:authenticated"}"'
            for user, token in self._tokens.items()
        ]
        (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        (folder / "audit.yaml").write_text(yaml.safe_dump(_audit_policy(users)))
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (folder / "sa.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    @property
    def url(self) -> str:
        """The URL of the API."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, user: str = ADMIN, namespace: str = "default") -> Path:
        """Write a kubeconfig for one of the users and return its path."""
        path = self.folder / f"kubeconfig-{user.replace(':', '-')}-{namespace}.yaml"
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority": str(self.folder / "certs" / "apiserver.crt"),
                    },
                }
            ],
            "users": [{"name": "test", "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        }
        # Another thread may read the file now: a name that it does not see, then one step.
        fresh = path.with_suffix(f".{uuid4().hex}")
        fresh.write_text(yaml.safe_dump(content))
        fresh.replace(path)
        return path

    def requests(self, user: str) -> Iterator[Request]:
        """The requests of one user so far; a watch counts when it starts. `ADMIN` is not recorded."""
        with (self.folder / "audit.log").open() as log:
            for line in log:
                event = json.loads(line)
                answered = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
                if event["user"]["username"] != user or event["stage"] != answered:
                    continue
                asked = event.get("objectRef", {})
                parts = (asked.get("resource", ""), asked.get("subresource", ""))
                yield Request(
                    verb=event["verb"],
                    group=asked.get("apiGroup", ""),
                    resource="/".join(part for part in parts if part),
                    namespace=asked.get("namespace", ""),
                    name=asked.get("name", ""),
                    code=event.get("responseStatus", {}).get("code", 0),
                )

    def start(self) -> None:
        """Start both and wait until the API server is ready.

        Raises:
            RuntimeError: A process ended, or the API server did not become ready in time.
        """
        client = self._etcd_url
        peer = f"http://127.0.0.1:{self._peer_port}"
        self._etcd = self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self.start_api()

    def start_api(self) -> None:
        """Start the API server alone, on the same port and data as before.

        Raises:
            RuntimeError: It ended, or did not become ready in time.
        """
        self._api = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certs'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Nothing creates the default service account here, and there is no node whose endpoint would matter.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={self.folder / 'audit.yaml'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--endpoint-reconciler-type=none",
        )
        self._wait_ready()

    def stop(self) -> None:
        """End both, the API server first, and wait for them."""
        self.stop_api()
        _end(self._etcd)
        self._etcd = None
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def stop_api(self) -> None:
        """End only the API server; `start_api` starts it again with all objects."""
        _end(self._api)
        self._api = None

    def compact(self) -> None:
        """Compact etcd to the newest version: a watch from an older version gets status 410."""
        with self._ask_etcd("range", {"key": "AA==", "limit": 1}) as answer:
            revision = json.load(answer)["header"]["revision"]
        self._ask_etcd("compaction", {"revision": revision, "physical": True}).close()

    def _ask_etcd(self, method: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(f"{self._etcd_url}/v3/kv/{method}", data=json.dumps(body).encode())
        return urllib.request.urlopen(request, timeout=HANG_SECONDS)

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    def _run(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([find_binary(name), *flags], stdout=log, stderr=log)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        context = _without_verification()
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self._tokens[ADMIN]}"}
        )
        while time.monotonic() < deadline:
            if any(process is None or process.poll() is not None for process in (self._etcd, self._api)):
                break
            try:
                with urllib.request.urlopen(request, timeout=HANG_SECONDS, context=context):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        tail = (self.folder / "kube-apiserver.log").read_text(errors="replace")[-1500:]
        self.stop()
        raise RuntimeError(f"the API server did not become ready: see {self.folder}/*.log; its last lines:\n{tail}")


def _audit_policy(users: tuple[str, ...]) -> dict[str, Any]:
    rules = [{"level": "Metadata", "users": list(users), "omitStages": ["RequestReceived"]}] if users else []
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*rules, {"level": "None"}]}


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _without_verification() -> Any:
    import ssl

    # The certificate is made by the API server while it starts; the readiness probe comes before it can be read.
    return ssl._create_unverified_context()
