"""The HTTP proxy between the pods and Azure."""

from typing import Annotated

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.secrets import SecretKeyRef

NoProxyName = Annotated[
    str,
    Field(
        max_length=253,
        pattern=r"^\.?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
        json_schema_extra=told("use a host name, or a domain with a dot before it, without a port"),
    ),
]


class Proxy(Model):
    """An HTTP proxy that forwards TLS connections (CONNECT)."""

    model_config = rules(
        (
            "!self.url.contains('@')",
            "proxy.url must not contain a user or a password: put them into a Secret, as <user>:<password>, and set "
            "proxy.credentialsSecretRef",
        ),
        (
            "self.url.contains('@') || self.url.matches('^http://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5}$')",
            "proxy.url must have the form http://<host>:<port>",
        ),
    )

    url: str = Field(
        max_length=512,
        pattern=r"^[!-~]+$",  # the rules above say more
        description="Address of the proxy, such as http://proxy.example.com:3128, without credentials.",
    )
    no_proxy: list[NoProxyName] = Field(
        default=[],
        max_length=64,
        description="Host names to connect to directly; each includes its subdomains.",
    )
    credentials_secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="User and password of the proxy, as <user>:<password> in a Secret, mounted as a file and read by "
        "the hosts only. Not with Spark, which cannot sign in at a proxy.",
    )
