"""Reads schemas by id from Azure Schema Registry or a Confluent registry.

A schema never changes, so it is kept for the life of the driver; an id that is not in the registry is asked for again
in the next batch. A registry that does not respond is an error: the batch waits for its next attempt. Redirects are not
followed, because their target may be any machine and would receive the credential. Answers are limited and not shown.

Sources: learn.microsoft.com/rest/api/schemaregistry ("Get Schema By Id"),
docs.confluent.io/platform/current/schema-registry/develop/api.html ("GET /schemas/ids/{int: id}", and its error codes).
"""

import base64
import contextlib
import functools
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.spark import Registry, RegistryType
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_spark.errors import ConfigurationError, RegistryError
from eventconsumer_spark.registry.schema import MAX_CHARACTERS, Refusal, Schema, checked
from eventconsumer_storage.credential import check_workload_identity, place, read_secret

log = logging.getLogger(__name__)

FIELD = "spec.spark.output.body.registry"
API_VERSION = "2023-07-01"
"""The newest stable version, and the default of the generated clients of Microsoft. Sources:
github.com/Azure/azure-rest-api-specs/tree/main/specification/schemaregistry/data-plane/Microsoft.EventHub/stable/2023-07-01,
specification/schemaregistry/SchemaRegistry/main.tsp ("This is the default version"), and
github.com/Azure/azure-sdk-for-js, sdk/schemaregistry/schema-registry/generated/schemaRegistryClient.ts.
"""
SCOPE = "https://eventhubs.azure.net/.default"  # as in azure-schemaregistry
REQUEST_SECONDS = 15.0  # to connect, and between two pieces of an answer
ANSWER_SECONDS = 60.0  # of a request in all: http.client waits for ever for an answer that comes byte by byte
TRIES = 4
UNKNOWN = Refusal("is not in the registry")
_ANSWER_BYTES = 4 * MAX_CHARACTERS  # a JSON text with escapes
_NOT_FOUND = 40403  # "Schema not found" of Confluent
# Azure answers {"error": {"code": "ItemNotFound", "message": "Schema id ... does not exist. ..."}}. Source: a recorded
# answer (of version 2022-10) in Microsoft's SDK for JavaScript, package @azure/schema-registry:
# github.com/Azure/azure-sdk-for-js/blob/2a6ee1c16fcadef8b0949b9cfcfa4987cdf3f1be/sdk/schemaregistry/schema-registry/
# recordings/node/schemaregistryclient_format_avro/
# recording_fails_to_get_schema_when_no_schema_exists_with_given_id.json. A recording of 2020-09-01-preview, in
# recordings/browsers/schemaregistryclient, has {"Code": 404, "Detail": ...} instead.
_LATER = frozenset({408, 425, 429})
_RESTORE = "restore the registry, or the way to it"


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes


class SchemaRegistry:
    """The client of one registry.

    Args:
        registry: Its address and protocol.
        credential: The driver's credential; None: none.
        token: A token of Microsoft Entra ID for `SCOPE`; None: by the workload identity of `credential`.
        sleep: Waits between tries, seconds.
    """

    def __init__(
        self,
        registry: Registry,
        credential: Credential | None = None,
        token: Callable[[], str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.registry = registry
        self._credential = credential
        self._token = token
        self._sleep = sleep
        self._opener = _opener()
        self._kept: dict[str, Schema | Refusal] = {}

    def schemas(self, ids: Iterable[str]) -> dict[str, Schema | Refusal]:
        """The schema of each id, or why its bodies are not decoded.

        Raises:
            RegistryError: The registry does not respond, or refuses the credential.
            ConfigurationError: There is no registry at the URL, or a credential cannot be used.
        """
        found = {}
        for each in ids:
            schema = self._kept.get(each) or self._fetch(each)
            if schema is not UNKNOWN:
                self._kept[each] = schema
            found[each] = schema
        return found

    def _fetch(self, schema_id: str) -> Schema | Refusal:
        azure = self.registry.type is RegistryType.AZURE
        path = (
            f"/$schemaGroups/$schemas/{schema_id}?api-version={API_VERSION}" if azure else f"/schemas/ids/{schema_id}"
        )
        answer = self._get(self.registry.url + path)
        if answer.status == 404 and _says_unknown(self.registry.type, answer.content):
            return UNKNOWN
        if answer.status != 200:
            raise self._failure(answer.status)
        if len(answer.content) > _ANSWER_BYTES:
            return Refusal(f"is longer than {MAX_CHARACTERS} characters")
        return _of_azure(answer) if azure else _of_confluent(answer.content, int(schema_id))

    def _get(self, url: str) -> _Answer:
        """The answer of the registry, after up to TRIES requests."""
        for number in range(1, TRIES + 1):
            request = Request(url, headers={"Accept": "*/*"} | self._authorization())  # noqa: S310 - http or https
            try:
                answer = self._once(request)
                if answer.status not in _LATER and answer.status < 500:
                    return answer
                cause, remedy = f"it answers with HTTP {answer.status}", _RESTORE
            except (OSError, HTTPException) as error:
                cause, remedy = unanswered(error)
            if number < TRIES:
                log.warning("%s.url: %s: %s; trying again", FIELD, self.registry.url, cause)
                self._sleep(2.0 ** (number - 1))
        raise RegistryError(f"{FIELD}.url: {self.registry.url}: {cause}: {remedy}; the batch waits and is tried again")

    def _once(self, request: Request) -> _Answer:
        end = time.monotonic() + ANSWER_SECONDS
        try:
            with self._opener.open(request, timeout=REQUEST_SECONDS) as response:
                found = _answer(response.status, response)
        except HTTPError as error:
            with error:
                found = _answer(error.code, error)
        if time.monotonic() >= end:  # what was read may be a part
            raise TimeoutError(f"it is not complete after {ANSWER_SECONDS:.0f} s")
        return found

    def _authorization(self) -> dict[str, str]:
        credential = self._credential
        if self._token:
            return {"Authorization": f"Bearer {self._token()}"}
        if credential is None:
            return {}
        try:
            if credential.client_id is not None:
                self._token = _identity(credential)
                return self._authorization()
            value = read_secret(credential, "<user>:<password>")
        except Blocked as error:
            raise ConfigurationError(str(error)) from None
        if ":" not in value:
            raise ConfigurationError(
                f"{credential.field}: {place(credential)} has not the form <user>:<password>: correct it"
            )
        return {"Authorization": "Basic " + base64.b64encode(value.encode()).decode()}

    def _failure(self, status: int) -> Exception:
        url = self.registry.url
        if status in (401, 403):
            who = self._credential
            if who is None:
                remedy = f"set {FIELD}.authentication"
            elif who.client_id is not None:
                remedy = f"give the identity {who.client_id} the role Schema Registry Reader in the namespace"
            else:
                remedy = f"correct {place(who)}"
            return RegistryError(f"{FIELD}.authentication: {url} refuses the credential (HTTP {status}): {remedy}")
        if 300 <= status < 400:
            return ConfigurationError(
                f"{FIELD}.url: {url} answers with a redirect (HTTP {status}), which is not followed: set the URL of "
                "the target"
            )
        return ConfigurationError(
            f"{FIELD}.url: {url} answers with HTTP {status}: correct the URL, or type, of the registry"
        )


@functools.lru_cache(maxsize=4)
def open_registry(registry: Registry, credential: Credential | None) -> SchemaRegistry:
    """The client of a registry, which keeps its schemas from batch to batch of a resident driver."""
    return SchemaRegistry(registry, credential)


def unanswered(error: Exception) -> tuple[str, str]:
    """PURE: cause and remedy of a request without an answer."""
    reason = getattr(error, "reason", None) or error  # urllib wraps the cause
    text = str(reason) or type(reason).__name__
    if isinstance(reason, socket.gaierror):
        return f"no answer: the host name cannot be resolved ({text})", "correct the URL, or the DNS of the cluster"
    if isinstance(reason, ssl.SSLCertVerificationError):
        remedy = "correct the certificate, or add its authority to the Spark image"
        return f"no answer: its certificate is not trusted ({reason.verify_message})", remedy
    if isinstance(reason, ssl.SSLError):
        return f"no answer: TLS fails ({text})", "correct the scheme or port of the URL, or the registry's TLS"
    return f"no answer: {text}", _RESTORE


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> Request | None:
        return None


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _end_later(self.sock)


class _TlsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _end_later(self.sock)


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TlsConnection, req, context=ssl.create_default_context())


def _end_later(connected: socket.socket) -> None:
    """End a connection that is still there after ANSWER_SECONDS."""

    def end() -> None:
        with contextlib.suppress(OSError):  # it was closed
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(ANSWER_SECONDS, end)
    timer.daemon = True
    timer.start()


def _opener() -> OpenerDirector:
    # With the proxy of the environment, as all clients of a driver.
    return build_opener(_NoRedirect(), _Http(), _Https())


def _answer(status: int, response: HTTPResponse | HTTPError) -> _Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return _Answer(status, headers, response.read(_ANSWER_BYTES + 1))


def _identity(credential: Credential) -> Callable[[], str]:
    """Tokens of workload identity.

    Raises:
        Blocked: It is not injected into this pod.
    """
    check_workload_identity(credential, Reason.SPEC_INVALID)
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import WorkloadIdentityCredential  # import takes half a second: only if used

    entra = WorkloadIdentityCredential(client_id=credential.client_id)

    def token() -> str:
        try:
            return entra.get_token(SCOPE).token
        except ClientAuthenticationError as error:
            cause = next(iter(str(error).splitlines()), "no message")
            raise RegistryError(
                f"{credential.field}: no token for {SCOPE}: {cause}: check the federated credential of the identity"
            ) from None

    return token


def _says_unknown(kind: RegistryType, content: bytes) -> bool:
    """Whether an answer with status 404 is about the schema. One about the path is the wrong URL."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(said, dict):
        return False
    if kind is RegistryType.CONFLUENT:
        return said.get("error_code") == _NOT_FOUND
    error = said.get("error")
    return isinstance(error, dict) and "code" in error


def _of_azure(answer: _Answer) -> Schema | Refusal:
    kind = answer.headers.get("content-type", "").lower().replace(" ", "")
    if "serialization=avro" not in kind:
        return Refusal("is not an Avro schema")
    version = answer.headers.get("schema-version", "")
    return _checked(answer.content, int(version) if version.isascii() and version.isdigit() else 0)


def _of_confluent(content: bytes, schema_id: int) -> Schema | Refusal:
    try:
        said: Any = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("schema"), str):
        raise ConfigurationError(f"{FIELD}.url: it answers without a schema: correct the URL, or type, of the registry")
    if said.get("schemaType", "AVRO") != "AVRO":  # absent for Avro
        return Refusal("is not an Avro schema")
    if said.get("references"):
        return Refusal("has references to other schemas, which are not read: register it in one piece")
    return _checked(said["schema"].encode(errors="replace"), schema_id)  # ids rise


def _checked(content: bytes, version: int) -> Schema | Refusal:
    try:
        return checked(content.decode(), version)
    except UnicodeDecodeError:
        return Refusal("is not UTF-8")
