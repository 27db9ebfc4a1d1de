"""Credentials that a spec names: a key of a Secret, or an identity. The spec itself holds none."""

from pydantic import Field

from eventconsumer_api.shared.model import Model, told
from eventconsumer_api.spec.scalars import ObjectName


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret, in the resource's namespace.")
    key: str = Field(
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
        json_schema_extra=told("use letters, digits, dots, _ and -, as in the keys of Secrets"),
        description="Key in the Secret that holds the value.",
    )


class WorkloadIdentity(Model):
    """A federated Microsoft Entra identity; no secret is stored."""

    client_id: str = Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9-]+$",
        json_schema_extra=told("use the client id of the identity, such as 00000000-0000-0000-0000-000000000000"),
        description="Client id of the managed identity or application.",
    )
