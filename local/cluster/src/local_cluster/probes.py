"""Readiness probes of components."""

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from local_cluster.components import HttpProbe, SocketProbe

_TIMEOUT = 2.0


class Prober:
    """Probes with the certificates of one cluster."""

    def __init__(self, pki: Path) -> None:
        """Use the certificates in this folder; they need not exist before the first https probe."""
        self._pki = pki

    def is_ready(self, probe: HttpProbe | SocketProbe) -> bool:
        """Whether the component responds now; waits at most two seconds."""
        if isinstance(probe, SocketProbe):
            return _accepts(probe.path)
        context = self._tls(probe) if probe.url.startswith("https:") else None
        no_proxy = urllib.request.ProxyHandler({})  # the addresses are ours, whatever the environment's proxy is
        handlers: list[urllib.request.BaseHandler] = [no_proxy]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        try:
            with urllib.request.build_opener(*handlers).open(probe.url, timeout=_TIMEOUT) as answer:
                return bool(answer.status == http.HTTPStatus.OK)
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            return False

    def _tls(self, probe: HttpProbe) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._pki / probe.authority))
        if probe.client:
            context.load_cert_chain(self._pki / f"{probe.client}.crt", self._pki / f"{probe.client}.key")
        return context


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True
