"""Watches the API server with kopf: event -> key, nothing else.

kopf is the shell that keeps watches alive (reconnects, relists after 410); what to do about an event is decided from
the world as it is, elsewhere. Known weaknesses of kopf are handled here: it serves only kinds that exist when it
starts, so we wait for the CRD; errors other than 410 end a watcher, which `dead_watchers` shows to the health check;
and it must not ask for peering objects, namespaces or CRDs, which the operator has no right to read.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

import kopf

from eventconsumer_api import labels
from eventconsumer_operator.api import KubernetesApi
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.manifest import EVENT_CONSUMER, JOB, STATEFUL_SET, Kind

_log = logging.getLogger(__name__)

Notify = Callable[[Key], None]
_WATCHED = (EVENT_CONSUMER, STATEFUL_SET, JOB)
_CRD_SECONDS = 3.0


class Triggers:
    """Turns raw events into keys.

    An EventConsumer is worth looking at when its spec is new or it goes; its status is our own writing and would
    call us for ever. Coroutines, because kopf runs plain functions in threads and the queue belongs to the event loop.
    """

    def __init__(self, notify: Notify) -> None:
        """Call `notify` with each key that is worth looking at."""
        self._notify = notify
        self._seen: dict[Key, tuple[str, int, bool]] = {}

    async def consumer(self, event: Any, **_: Any) -> None:
        """An EventConsumer changed."""
        metadata = event["object"]["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        if event["type"] == "DELETED":
            self._seen.pop(key, None)
            self._notify(key)
            return
        state = (metadata["uid"], metadata.get("generation", 0), "deletionTimestamp" in metadata)
        if self._seen.get(key) != state:
            self._seen[key] = state
            self._notify(key)

    async def child(self, event: Any, **_: Any) -> None:
        """A child changed: its label names the resource."""
        metadata = event["object"]["metadata"]
        name = metadata.get("labels", {}).get(labels.LABEL_CONSUMER)
        if name:
            self._notify(Key(metadata["namespace"], name))


async def watch(api: KubernetesApi, namespaces: Collection[str], notify: Notify) -> None:
    """Watch until SIGTERM or SIGINT; then return.

    Raises:
        Exception: A watch broke for good: the process should end and be started anew.
    """
    await _wait_for_crd(api)
    await kopf.operator(
        registry=_registry(Triggers(notify)),
        settings=_settings(),
        namespaces=list(namespaces),
        standalone=True,
        identity=labels.MANAGED_BY,  # else kopf looks up the name of a user who has none in a container
    )


def dead_watchers(namespaces: Collection[str]) -> list[str]:
    """Names of the watchers that should run and do not.

    They count as dead before kopf has started them, too: the readiness of a starting operator.
    """
    alive = {task.get_name() for task in asyncio.all_tasks()}
    wanted = (
        f"watcher for {kind.plural}.{_version_and_group(kind)}@{namespace}"  # how kopf names its tasks
        for kind in _WATCHED
        for namespace in namespaces
    )
    return [name for name in wanted if name not in alive]


def _version_and_group(kind: Kind) -> str:
    group, _, version = kind.api_version.rpartition("/")
    return f"{version}.{group}" if group else version


async def _wait_for_crd(api: KubernetesApi) -> None:
    warned = False
    while True:
        try:
            if await api.is_served(EVENT_CONSUMER):
                return
            text = "the EventConsumer CRD is not installed: install it from the chart or crds/eventconsumers.yaml"
        except OperatorError as error:
            text = str(error)
        if not warned:
            _log.warning("waiting: %s", text)
            warned = True
        await asyncio.sleep(_CRD_SECONDS)


def _registry(triggers: Triggers) -> Any:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)
    for kind, handler in (
        (EVENT_CONSUMER, triggers.consumer),
        (STATEFUL_SET, triggers.child),
        (JOB, triggers.child),
    ):
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=registry, id=kind.plural)(handler)
    return registry


def _login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _settings() -> Any:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    # Ten minutes of patience with an API server that is away; then the process ends and is started anew.
    settings.networking.error_backoffs = [1, 1, 2, 3, 5, 8, 13, 21] + [30] * 18
    selector = f"{labels.LABEL_MANAGED_BY}={labels.MANAGED_BY}"
    for kind in (STATEFUL_SET, JOB):
        group, _, version = kind.api_version.rpartition("/")
        settings.watching.label_selectors[group, version, kind.plural] = selector
    return settings
