"""The Event Hub that is read."""

from enum import StrEnum

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.scalars import ConsumerGroupName
from eventconsumer_api.v1alpha1.authentication import Authentication


class HubTransport(StrEnum):
    """Transport of AMQP."""

    AMQP = "Amqp"
    AMQP_WEB_SOCKETS = "AmqpWebSockets"


class EventHub(Model):
    """The Event Hub to drain, and the consumer group."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || "
            "(has(self.fullyQualifiedNamespace) && has(self.name))",
            "eventHub: fullyQualifiedNamespace and name are required with workloadIdentity",
        ),
        (
            "has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",
            "eventHub.name cannot change: create another EventConsumer for another hub",
        ),
        (
            "has(self.fullyQualifiedNamespace) == has(oldSelf.fullyQualifiedNamespace) && "
            "(!has(self.fullyQualifiedNamespace) || self.fullyQualifiedNamespace == oldSelf.fullyQualifiedNamespace)",
            "eventHub.fullyQualifiedNamespace cannot change: create another EventConsumer for another hub",
        ),
        (
            "self.consumerGroup == oldSelf.consumerGroup",
            "eventHub.consumerGroup cannot change: create another EventConsumer for another consumer group",
        ),
    )

    fully_qualified_namespace: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
        json_schema_extra=told(
            "use the host name alone, without sb:// and slashes, such as shop.servicebus.windows.net"
        ),
        description="Host name of the namespace, such as shop.servicebus.windows.net. "
        "Default: the host name in the connection string.",
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        json_schema_extra=told("use the name of the Event Hub in its namespace: letters, digits, dots, _ and -"),
        description="Name of the Event Hub; optional if the connection string has EntityPath.",
    )
    consumer_group: ConsumerGroupName = Field(
        default="$Default", description="Consumer group. Each EventConsumer needs its own."
    )
    transport: HubTransport = Field(
        default=HubTransport.AMQP,
        description="Amqp: AMQP over TLS, port 5671. AmqpWebSockets: AMQP over WebSockets, port 443, for networks with "
        "an HTTP proxy or without port 5671; without the compiled decoder, more CPU time per event.",
    )
    authentication: Authentication = Field(
        description="Authentication of hosts at Event Hubs; the right Listen is sufficient."
    )
