"""Authentication of hosts at Event Hubs and storage, without credentials in the resource."""

from pydantic import Field

from eventconsumer_api.model import Model, rules


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret, in the resource's namespace.")
    key: str = Field(
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
        description="Key in the Secret that holds the value.",
    )


class WorkloadIdentity(Model):
    """A federated Microsoft Entra identity; no secret is stored."""

    client_id: str = Field(min_length=1, max_length=64, description="Client id of the managed identity or application.")


class Authentication(Model):
    """How the hosts sign in: exactly one of the two."""

    model_config = rules(
        (
            "has(self.connectionStringSecretRef) != has(self.workloadIdentity)",
            "authentication: set exactly one of connectionStringSecretRef and workloadIdentity",
        )
    )

    connection_string_secret_ref: SecretKeyRef | None = Field(
        default=None, description="A connection string in a Secret, mounted as a file and read by the hosts only."
    )
    workload_identity: WorkloadIdentity | None = Field(
        default=None, description="Authentication with Microsoft Entra Workload ID."
    )
