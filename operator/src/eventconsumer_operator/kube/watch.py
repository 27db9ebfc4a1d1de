"""Watches the API server with kopf: event -> store -> key.

kopf keeps the watches alive (reconnects, lists again after 410). It does not report objects that were deleted while a
watch was interrupted; the regular lists do. Limitations of kopf are handled here: it serves only kinds that exist when
it starts, so the operator waits for the CRD and restarts kopf when the CRD of another operator is installed. Errors
other than 410 end a watcher; `dead_watchers` reports it to the health check. kopf must not read peering objects,
namespaces or CRDs: the operator has no permission for them.
"""

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

import kopf
import structlog

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.keys import Key, Notify
from eventconsumer_operator.kube.api import PAGE, KubernetesApi
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, STORED, install_hint
from eventconsumer_operator.kube.store import Store

_log = structlog.get_logger(__name__)

_CRD_SECONDS = 3.0
_IDLE_SECONDS = 0.05  # kopf keeps the last event of each object for so long, which is the whole object
_MORE_SECONDS = 5.0  # a CRD that is installed later is noticed within this time


class _NoDiffBase(kopf.DiffBaseStorage):  # type: ignore[misc]  # kopf has no types
    """Keeps kopf from comparing objects with their last state: a copy of each object for each event.

    Source: docs.kopf.dev, Configuration, "Change detection": the storage may be replaced.
    """

    def build(self, **_: Any) -> Any:
        """No part of an object."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Nothing is stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class Triggers:
    """Puts raw events into the store, and turns changes into keys.

    The operator's own writes are in the store already. An EventConsumer is reconciled when its spec changes or it is
    deleted; changes of its status come from the operator itself. The methods are coroutines because kopf runs plain
    functions in threads, and the store belongs to the event loop.
    """

    def __init__(self, store: Store, notify: Notify) -> None:
        """Feed `store`; call `notify` with each key to reconcile."""
        self._store = store
        self._notify = notify

    async def consumer(self, event: Any, **_: Any) -> None:
        """An EventConsumer changed."""
        manifest: Manifest = event["object"]
        metadata = manifest["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        before = self._store.get(EVENT_CONSUMER, *key)
        if self._take(event) and (event["type"] == "DELETED" or before is None or _state(before) != _state(manifest)):
            self._notify(key, urgent=True)

    async def child(self, event: Any, **_: Any) -> None:
        """A child changed; its label names the resource."""
        metadata = event["object"]["metadata"]
        name = metadata.get("labels", {}).get(labels.LABEL_CONSUMER)
        if self._take(event) and name:
            self._notify(Key(metadata["namespace"], name))

    def _take(self, event: Any) -> bool:
        manifest: Manifest = event["object"]
        return self._store.remove(manifest) if event["type"] == "DELETED" else self._store.put(manifest)


def _state(manifest: Manifest) -> tuple[str, int, bool]:
    metadata = manifest["metadata"]
    return metadata["uid"], metadata.get("generation", 0), "deletionTimestamp" in metadata


async def watch(api: KubernetesApi, store: Store, scopes: Collection[str], notify: Notify) -> None:
    """Watch namespaces, or all of them for the scope "", until SIGTERM or SIGINT.

    Raises:
        Exception: A watch failed for good: the process must be restarted.
    """
    await _wait_for_crd(api)
    triggers = Triggers(store, notify)
    while True:
        for kind in store.kinds:
            if install_hint(kind) and not await api.is_served(kind):
                store.set_served(kind, False)
        kinds = store.served
        again = asyncio.Event()
        waiting = asyncio.create_task(_wait_for_more(api, store, again))
        try:
            await kopf.operator(
                registry=_registry(triggers, kinds),
                settings=_settings(kinds),
                namespaces=[scope for scope in scopes if scope],
                clusterwide="" in scopes,
                standalone=True,
                identity=labels.MANAGED_BY,  # otherwise kopf looks up the user name, which a container may lack
                stop_flag=again,
            )
        finally:
            waiting.cancel()
        if not again.is_set():
            return


def dead_watchers(scopes: Collection[str], kinds: Collection[Kind] = STORED) -> list[str]:
    """Names of watchers that should run and do not, including watchers that kopf has not started yet.

    Args:
        scopes: Namespaces, or "" alone for all.
        kinds: Kinds that the API server serves.
    """
    alive = {task.get_name() for task in asyncio.all_tasks()}
    wanted = (
        f"watcher for {kind.plural}.{_version_and_group(kind)}@{scope or None}"  # how kopf names its tasks
        for kind in kinds
        for scope in scopes
    )
    return [name for name in wanted if name not in alive]


def _version_and_group(kind: Kind) -> str:
    group, _, version = kind.api_version.rpartition("/")
    return f"{version}.{group}" if group else version


async def _wait_for_crd(api: KubernetesApi) -> None:
    repeats = LogThrottle()
    while True:
        try:
            if await api.is_served(EVENT_CONSUMER):
                if repeats.over("definition"):
                    _log.info("the EventConsumer CRD is installed")
                return
            text = "the EventConsumer CRD is not installed: install it from the chart or crds/eventconsumers.yaml"
        except OperatorError as error:
            text = str(error)
        if times := repeats.again("definition", text):
            _log.warning("waiting for the EventConsumer CRD", error=text, times=times)
        await asyncio.sleep(_CRD_SECONDS)


async def _wait_for_more(api: KubernetesApi, store: Store, again: asyncio.Event) -> None:
    """Set `again` when the API server serves a kind that is not watched: its CRD was installed, or installed again."""
    away = set(store.unserved)
    while not again.is_set():
        await asyncio.sleep(_MORE_SECONDS)
        away |= store.unserved
        for kind in away:
            with contextlib.suppress(OperatorError):
                if await api.is_served(kind):
                    _log.info(f"{_version_and_group(kind)} is served now; starting its watch", kind=kind.plural)
                    store.set_served(kind, True)
                    again.set()


def _registry(triggers: Triggers, kinds: Collection[Kind]) -> Any:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)
    for kind in kinds:
        handler = triggers.consumer if kind == EVENT_CONSUMER else triggers.child
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=registry, id=f"{kind.plural}.{group}")(handler)
    return registry


def _login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _settings(kinds: Collection[Kind]) -> Any:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = PAGE
    settings.queueing.idle_timeout = _IDLE_SECONDS
    settings.networking.request_timeout = 30
    # Retry for ten minutes while the API server is unreachable; then the process ends and is restarted.
    settings.networking.error_backoffs = [1, 1, 2, 3, 5, 8, 13, 21] + [30] * 18
    selector = f"{labels.LABEL_MANAGED_BY}={labels.MANAGED_BY}"
    for kind in kinds:
        if kind != EVENT_CONSUMER:
            group, _, version = kind.api_version.rpartition("/")
            settings.watching.label_selectors[group, version, kind.plural] = selector
    return settings
