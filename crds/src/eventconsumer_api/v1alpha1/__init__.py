"""EventConsumer v1alpha1: the single source of truth for the resource's spec.

The structural schema of the CRD (crdgen.py), the operator's parser and the reference page all come from these models.
Field constraints become OpenAPI constraints; cross-field rules are CEL, attached with `rules(...)`, and are enforced by
the API server, so there is no webhook. Defaults are static scalars; computed values appear in `status.effective`.
Each part of the spec is a module; users import its models from here.
"""

from eventconsumer_api.spec.secrets import SecretKeyRef, WorkloadIdentity
from eventconsumer_api.v1alpha1.authentication import Authentication
from eventconsumer_api.v1alpha1.event_hub import EventHub, HubTransport
from eventconsumer_api.v1alpha1.leases import CheckpointStore, LeaseDialect, LeaseLayout
from eventconsumer_api.v1alpha1.pods import Pods, Resources
from eventconsumer_api.v1alpha1.position import Position, PositionType, StartingPosition
from eventconsumer_api.v1alpha1.processing import CheckpointPolicy, CheckpointRule, ClientKind, HandlerMode, Processing
from eventconsumer_api.v1alpha1.proxy import Proxy
from eventconsumer_api.v1alpha1.replay import Replay
from eventconsumer_api.v1alpha1.resource import API_VERSION, GROUP, KIND, PLURAL, VERSION, EventConsumerSpec
from eventconsumer_api.v1alpha1.scaling import LagScaling, Scaling, ScalingMode
from eventconsumer_api.v1alpha1.sink import (
    FileFormat,
    FileLayout,
    NoticeAuthentication,
    NoticeFormat,
    Notices,
    Retention,
    Roll,
    Sink,
    SinkBody,
    SinkBodyType,
    Table,
    TableFormat,
)

__all__ = [
    "API_VERSION",
    "GROUP",
    "KIND",
    "PLURAL",
    "VERSION",
    "Authentication",
    "CheckpointPolicy",
    "CheckpointRule",
    "CheckpointStore",
    "ClientKind",
    "EventConsumerSpec",
    "EventHub",
    "FileFormat",
    "FileLayout",
    "HandlerMode",
    "HubTransport",
    "LagScaling",
    "LeaseDialect",
    "LeaseLayout",
    "NoticeAuthentication",
    "NoticeFormat",
    "Notices",
    "Pods",
    "Position",
    "PositionType",
    "Processing",
    "Proxy",
    "Replay",
    "Resources",
    "Retention",
    "Roll",
    "Scaling",
    "ScalingMode",
    "SecretKeyRef",
    "Sink",
    "SinkBody",
    "SinkBodyType",
    "StartingPosition",
    "Table",
    "TableFormat",
    "WorkloadIdentity",
]
