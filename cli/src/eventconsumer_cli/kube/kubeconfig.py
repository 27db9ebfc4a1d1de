"""Selection of the cluster by the kubeconfig, as kubectl does."""

import logging
import os
from pathlib import Path

from eventconsumer_cli.errors import ClusterError
from eventconsumer_cli.kube.client import KubernetesCluster

_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(kubeconfig: Path | None = None, context: str | None = None) -> KubernetesCluster:
    """The cluster that kubectl would use: --kubeconfig, KUBECONFIG, ~/.kube/config, or the pod's own.

    Raises:
        ClusterError: There is no kubeconfig, or it does not have the context.
    """
    import yaml
    from kubernetes import client, config
    from urllib3.util import Retry

    settings = client.Configuration()
    # One for a stale connection; an unreachable cluster should not be tried four times. The API server sends no
    # redirects, but a pod behind its proxy may: the target would get a request with the rights of the user.
    settings.retries = Retry(1, redirect=False)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its retries are not of interest
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not kubeconfig and not context and _IN_POD.exists() and not _exists(path):
        config.load_incluster_config(client_configuration=settings)
        return KubernetesCluster(client.ApiClient(settings), _IN_POD.read_text(encoding="utf-8").strip())
    if not _exists(path):
        raise ClusterError(f"no kubeconfig: {path} does not exist", "name one with --kubeconfig, or set KUBECONFIG")
    try:
        contexts, current = config.list_kube_config_contexts(path)
        chosen = next(each for each in contexts if each["name"] == context) if context else current
        config.load_kube_config(path, chosen["name"], client_configuration=settings, persist_config=False)
    except StopIteration:
        names = ", ".join(sorted(str(each["name"]) for each in contexts))
        raise ClusterError(f"the kubeconfig has no context {context!r}; it has {names or 'none'}") from None
    except (config.ConfigException, yaml.YAMLError) as error:
        raise ClusterError(f"the kubeconfig {path} cannot be used: {error}") from error
    return KubernetesCluster(client.ApiClient(settings), chosen["context"].get("namespace") or "default")


def _exists(paths: str) -> bool:
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)
