"""Regular complete lists: they correct the store, whatever the watches miss.

Every kind is listed once per namespace, one after the other, so that one page is in memory at a time. Changes that no
watch reported are reconciled at once. All other resources are queued for a time after their next reconcile, so that a
key that was lost comes back and no other one is reconciled more often.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_operator import metrics
from eventconsumer_operator.errors import Forbidden, Gone, OperatorError
from eventconsumer_operator.keys import Key, Notify
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, ObjectList, install_hint
from eventconsumer_operator.kube.store import Store

log = structlog.get_logger(__name__)

MANAGED = {labels.LABEL_MANAGED_BY: labels.MANAGED_BY}
RETRY_SECONDS = 10.0
_SPREAD_SECONDS = 15.0
LOST_SECONDS = 60.0  # above the longest time between two reconciles of a resource
# Longer than the watches retry while the API server is unreachable.
_OLD_SECONDS = 900.0


@dataclass(frozen=True)
class _Health:
    """Lists of one kind in one scope: time of the last success, event loop's clock, and the error since."""

    listed: float
    error: OperatorError | None = None


class Resync:
    """Lists everything into a store, at the start and regularly."""

    def __init__(
        self,
        api: Api,
        store: Store,
        scopes: tuple[str, ...],
        notify: Notify,
        seconds: float,
    ) -> None:
        """Create; `run` starts the lists.

        Args:
            api: The API server.
            store: The store to fill.
            scopes: Namespaces, or "" alone for all.
            notify: Called with each key to reconcile.
            seconds: Time between lists, in seconds.
        """
        self._api = api
        self._store = store
        self._scopes = scopes
        self._notify = notify
        self._seconds = seconds
        self._served: set[str] = set()
        self._repeats = LogThrottle()
        self._away: set[str] = set()  # scopes whose last lists failed
        now = asyncio.get_running_loop().time()
        self._health = {(kind, scope): _Health(now) for kind in store.kinds for scope in scopes}

    async def run(self) -> None:
        """List until cancelled."""
        while True:
            complete = True
            for scope in self._scopes:
                complete = await self._list_all(scope) and complete
            await asyncio.sleep(self._seconds if complete else min(RETRY_SECONDS, self._seconds))

    def problems(self) -> list[str]:
        """Kinds that were last listed too long ago. Kinds without permission are left out: a restart would not help."""
        now = asyncio.get_running_loop().time()
        limit = max(_OLD_SECONDS, 3 * self._seconds)
        return [
            f"{kind.plural} in {scope or 'all namespaces'} were last listed {now - health.listed:.0f} s ago"
            + (f": {health.error}" if health.error else "")
            for (kind, scope), health in self._health.items()
            if now - health.listed > limit and not isinstance(health.error, Forbidden)
        ]

    def ages(self) -> Mapping[Kind, float]:
        """Seconds since each kind was last listed, in its oldest scope."""
        now = asyncio.get_running_loop().time()
        result: dict[Kind, float] = {}
        for (kind, _), health in self._health.items():
            result[kind] = max(result.get(kind, 0.0), now - health.listed)
        return result

    async def _list_all(self, scope: str) -> bool:
        """List all kinds of a scope; return whether all lists succeeded."""
        lists = [await self._list(kind, scope) for kind in self._store.kinds]
        complete = None not in lists
        # Resources that failed because the API server was unreachable can be retried.
        back = complete and scope in self._away
        (self._away.discard if complete else self._away.add)(scope)
        if self._store.synced(scope) or self._store.refusals(scope):
            # Where a kind cannot be listed, at least the status reports it.
            self._notify_all(scope, set[Key]().union(*(news for news in lists if news is not None)), back)
        return complete

    async def _list(self, kind: Kind, scope: str) -> set[Key] | None:
        """List a kind into the store; return the keys that changed, or None if the list failed."""
        try:
            labels = None if kind == EVENT_CONSUMER else MANAGED
            listing = await self._api.list(kind, scope, labels, keep=self._store.kept)
        except Gone as error:
            if not install_hint(kind):
                self._failed(kind, scope, error)
                return None
            # No object of the kind can exist, so the other kinds do not wait for it.
            if kind not in self._store.unserved:
                log.warning(
                    "the API server does not serve a resource kind", kind=kind.plural, remedy=install_hint(kind)
                )
            self._store.set_served(kind, False)
            listing = ObjectList((), "")
        except OperatorError as error:
            self._failed(kind, scope, error)
            return None
        else:
            self._store.set_served(kind, True)
        if times := self._repeats.over((kind, scope)):
            log.info("list succeeds again", kind=kind.plural, namespace=scope or "all namespaces", failures=times)
        self._health[kind, scope] = _Health(asyncio.get_running_loop().time())
        return self._store.replace(kind, scope, listing)

    def _failed(self, kind: Kind, scope: str, error: OperatorError) -> None:
        if times := self._repeats.again((kind, scope), str(error)):
            where = scope or "all namespaces"
            log.warning("list failed; retrying", kind=kind.plural, namespace=where, error=str(error), times=times)
        self._health[kind, scope] = replace(self._health[kind, scope], error=error)
        if isinstance(error, Forbidden):
            self._store.refuse(kind, scope, error)

    def _notify_all(self, scope: str, news: set[Key], back: bool) -> None:
        first = scope not in self._served
        self._served.add(scope)
        if not first:
            metrics.MISSED.inc(len(news))
        for key in {*self._store.consumers(scope), *news}:
            spread = random.uniform(0.0, _SPREAD_SECONDS)  # noqa: S311 - no secret
            soon = first or key in news
            self._notify(key, 0.0 if soon else spread + (0.0 if back else LOST_SECONDS), urgent=back)
