"""Authentication of hosts at Event Hubs and storage, without credentials in the resource."""

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules
from eventconsumer_api.spec.secrets import SecretKeyRef, WorkloadIdentity


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
