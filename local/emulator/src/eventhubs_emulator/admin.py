"""The admin API: shows and changes the namespace, and injects faults, over HTTP with JSON bodies.

    GET    /healthz                                  {"ready": true}
    GET    /hubs                                     every hub with its partitions' heads and tails
    GET    /hubs/{hub}                               one of them
    PUT    /hubs/{hub}                               create: partitions, groups
    DELETE /hubs/{hub}                               delete; its links are detached with amqp:not-found
    POST   /hubs/{hub}/recreate                      delete and create, empty, with a later created_at: partitions?
    POST   /hubs/{hub}/failover                      lose the newest events, drop links: lost {id: count}?, recreated?
    POST   /hubs/{hub}/partitions                    grow: total
    POST   /hubs/{hub}/partitions/{id}/events        put one: body or base64, properties?, key?; or many: events, times?
    POST   /hubs/{hub}/partitions/{id}/retention     drop every event below: before
    POST   /hubs/{hub}/partitions/{id}/compact       remove events in the middle: numbers
    POST   /hubs/{hub}/partitions/{id}/skip          skip sequence numbers: count
    GET    /links                                    readers and producers: partition, group, epoch, credit, connection
    GET    /counters                                 events and transfers, tokens, reads of properties
    GET    /policies                                 names and rights, never keys
    PUT    /policies                                 replace all: policies [{name, key, rights}]
    POST   /faults/drop-connections                  drop without a close frame: connection?
    POST   /faults/detach                            condition?, description? and a selection
    POST   /faults/freeze, /faults/unfreeze          links that send no events: a selection
    POST   /faults/late                              attaches that are not answered yet: a selection
    POST   /faults/early                             new readers start before their position: events, and a selection
    POST   /faults/refuse                            attaches to refuse: condition?, description?, times?, a selection
    POST   /faults/busy                              answer com.microsoft:server-busy: a selection
    POST   /faults/delay                             seconds before each write of events and responses: seconds
    POST   /faults/redeliver                         readers continue from: sequence_number, and a selection
    POST   /faults/cbs                               refuse tokens: status? (none: no response), description?
    POST   /faults/expire-tokens                     expire all present tokens: connection?
    DELETE /faults                                   end every lasting fault

A selection is any of hub, partition, group, connection, kind ("reader" or "producer"); without one, it contains all
links of these kinds. Detach and refuse also know the kinds "cbs" and "management". Freeze, late, early, refuse, busy,
delay and cbs last until they are ended; the others happen once.
"""

import base64
import binascii
from typing import Any

from .broker import Broker, Connected
from .errors import BadRequest, LinkFailed, NotFound, UsageError
from .faults import CbsFault, Early, Faults, Refusal, Selection
from .http import Call
from .hub import Hub
from .messages import Event, encode_event
from .services import partition_properties
from .tokens import Policy


class Admin:
    """Handles the calls of the admin API.

    Args:
        broker: the namespace.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, call: Call) -> dict[str, Any]:
        """Handles a call.

        Raises:
            BadRequest: the call is malformed.
            NotFound: the route or entity does not exist.
        """
        match (call.method, *call.path):
            case ("GET", "healthz"):
                return {"ready": True}
            case ("GET", "links"):
                return {"links": [link.describe() for link in self._broker.links]}
            case ("GET", "counters"):
                return dict(self._broker.counters)
            case (_, "policies"):
                return self._policies(call)
            case (_, "hubs", *rest):
                return self._hubs(call, rest)
            case ("DELETE", "faults"):
                self._broker.faults = Faults()
                self._broker.wake_all()
                return {}
            case ("POST", "faults", name):
                return self._fault(call, name)
        raise NotFound(f"there is no {call.method} /{'/'.join(call.path)}")

    def _policies(self, call: Call) -> dict[str, Any]:
        if call.method == "PUT":
            entries = call.need("policies", list)
            try:
                policies = [Policy.of(entry["name"], entry["key"], entry["rights"]) for entry in entries]
            except (KeyError, TypeError):
                raise BadRequest("each policy needs name, key and a list of rights") from None
            except UsageError as error:
                raise BadRequest(str(error)) from None
            self._broker.policies = {policy.name: policy for policy in policies}
        return {"policies": [{"name": p.name, "rights": sorted(p.rights)} for p in self._broker.policies.values()]}

    # Hubs

    def _hubs(self, call: Call, path: list[str]) -> dict[str, Any]:
        broker = self._broker
        match (call.method, *path):
            case ("GET",):
                return {"hubs": [self._hub(broker.hub(name)) for name in broker.names()]}
            case ("GET", name):
                return self._hub(broker.hub(name))
            case ("PUT", name):
                groups = [str(group) for group in call.get("groups", list, [])]
                return self._hub(broker.create_hub(name, call.get("partitions", int, 4), groups))
            case ("DELETE", name):
                broker.delete_hub(name)
                return {}
            case ("POST", name, "recreate"):
                return self._hub(broker.recreate_hub(name, call.get("partitions", int)))
            case ("POST", name, "failover"):
                return {"lost": broker.fail_over(name, _lost(call), recreated=call.get("recreated", bool, False))}
            case ("POST", name, "partitions"):
                hub = broker.hub(name)
                hub.add_partitions(call.need("total", int))
                return self._hub(hub)
            case ("POST", name, "partitions", partition, action):
                return self._partition(call, broker.hub(name), partition, action)
        raise NotFound(f"there is no {call.method} /{'/'.join(call.path)}")

    def _hub(self, hub: Hub) -> dict[str, Any]:
        now = self._broker.clock()
        return {
            "name": hub.name,
            "created_at_ms": hub.created_ms,
            "groups": hub.groups,
            "partitions": [
                {**partition_properties(partition, now), "events": len(partition), "bytes": partition.memory}
                for partition in hub.partitions
            ],
        }

    def _partition(self, call: Call, hub: Hub, partition_id: str, action: str) -> dict[str, Any]:
        partition = hub.partition(partition_id)
        if action == "events":
            partition.append(_events(call), self._broker.clock())
            return {"sequence_number": partition.last_sequence_number}
        if action == "retention":
            return {"dropped": partition.drop_before(call.need("before", int))}
        if action == "compact":
            numbers = call.need("numbers", list)
            if not all(isinstance(number, int) for number in numbers):
                raise BadRequest("field 'numbers' must hold sequence numbers")
            return {"removed": partition.remove(numbers)}
        if action == "skip":
            count = call.need("count", int)
            if count < 1:
                raise BadRequest(f"a gap of {count} sequence numbers is empty: use 1 or more")
            partition.skip_numbers(count)
            return {"next_sequence_number": partition.next_sequence_number}
        raise NotFound(f"there is no {call.method} /{'/'.join(call.path)}")

    # Faults

    def _fault(self, call: Call, name: str) -> dict[str, Any]:
        broker, selection = self._broker, _selection(call)
        match name:
            case "drop-connections":
                chosen = self._connections(call)
                for connection in chosen:
                    connection.drop()
                return {"dropped": len(chosen)}
            case "expire-tokens":
                chosen = self._connections(call)
                for connection in chosen:
                    connection.expire_claims()
                return {"expired": len(chosen)}
            case "detach":
                return {"detached": broker.detach(selection, _error(call, "amqp:link:detach-forced"))}
            case "redeliver":
                links = [link for link in broker.select(selection) if link.endpoint.kind == "reader"]
                for link in links:
                    link.seek(call.need("sequence_number", int))
                return {"readers": len(links)}
        self._lasting_fault(call, name, selection)
        broker.wake_all()
        return {}

    def _lasting_fault(self, call: Call, name: str, selection: Selection) -> None:
        faults = self._broker.faults
        match name:
            case "freeze":
                faults.frozen.append(selection)
            case "unfreeze":
                faults.frozen = [] if selection == Selection() else [s for s in faults.frozen if s != selection]
            case "late":
                faults.late.append(selection)
            case "early":
                faults.early.append(Early(selection, call.need("events", int)))
            case "refuse":
                faults.refusals.append(Refusal(selection, _error(call, "amqp:internal-error"), call.get("times", int)))
            case "busy":
                faults.busy.append(selection)
            case "delay":
                faults.delay = call.need("seconds", float)
            case "cbs":
                faults.cbs = CbsFault(call.get("status", int), call.get("description", str, "Fault injected."))
            case _:
                raise NotFound(f"there is no fault {name!r}")

    def _connections(self, call: Call) -> list[Connected]:
        wanted = call.get("connection", int)
        return [connection for number, connection in self._broker.connections.items() if wanted in (None, number)]


def _selection(call: Call) -> Selection:
    return Selection(
        hub=call.get("hub", str),
        partition=call.get("partition", str),
        group=call.get("group", str),
        connection=call.get("connection", int),
        kind=call.get("kind", str),
    )


def _error(call: Call, condition: str) -> LinkFailed:
    return LinkFailed(call.get("condition", str, condition), call.get("description", str, "Fault injected."))


def _lost(call: Call) -> dict[str, int]:
    lost: dict[str, int] = call.get("lost", dict, {})
    if not all(isinstance(count, int) and count > 0 for count in lost.values()):
        raise BadRequest("field 'lost' must contain the number of lost events of each partition, 1 or more")
    return lost


def _events(call: Call) -> list[Event]:
    entries = call.get("events", list, [call.body])
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadRequest("each of 'events' must be an object with a body or base64")
    times: int = call.get("times", int, 1)
    if times < 1 or not entries:
        raise BadRequest(f"{len(entries)} events {times} times are no events: use 1 or more")
    each = [Call(call.method, call.path, entry) for entry in entries]
    return [encode_event(_body(one), one.get("properties", dict), one.get("key", str)) for one in each] * times


def _body(call: Call) -> bytes:
    if "base64" not in call.body:
        return str(call.need("body", str)).encode()
    try:
        return base64.b64decode(call.need("base64", str), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("field 'base64' is not base64") from None
