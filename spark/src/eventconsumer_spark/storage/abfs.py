"""PURE: access of Spark to the sink's storage account: paths and Hadoop settings of the ABFS connector.

Invariant: the settings contain the credential, so they are set only in a running session (session.py), never as
arguments, Spark properties or environment. The host is the host of `spark.output.path`; the drained files are read
through the same host. ABFS reaches an account with a hierarchical namespace by the dfs endpoint only, and an account
without one by the blob endpoint only, so this replaces the other one.
Source: hadoop.apache.org/docs/stable/hadoop-azure/fns_blob.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from eventconsumer_api.spec.endpoints import same_account, service_of
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_storage.account import StorageAccount

_TOKEN_PROVIDER = "org.apache.hadoop.fs.azurebfs.oauth2.WorkloadIdentityTokenProvider"  # noqa: S105 - a class name


@dataclass(frozen=True)
class AbfsFolder:
    """A folder in ABFS; `host` includes the port, `path` has no slash at either end."""

    scheme: str
    container: str
    host: str
    path: str

    def __str__(self) -> str:
        return self.child("")

    def child(self, path: str) -> str:
        """URI of an object in this folder."""
        full = "/".join(filter(None, (self.path, path)))
        return f"{self.scheme}://{self.container}@{self.host}/{full}"


def output_folder(output: str, account: StorageAccount, *, hierarchical: bool | None = None) -> AbfsFolder:
    """Parse `spark.output.path` and check that it can be reached with the sink's credential.

    Args:
        output: The path.
        account: The sink's account.
        hierarchical: Whether the account has a hierarchical namespace; None: unknown, the given endpoint is used.

    Raises:
        ConfigurationError: It is not an ABFS URI, is not in the account of the sink, or requires TLS
            from an endpoint without TLS.
    """
    url = urlsplit(output)
    container, at, host = url.netloc.rpartition("@")
    if url.scheme not in ("abfs", "abfss") or not at or not container or not host:
        raise ConfigurationError(
            f"spark.output.path {output!r}: use abfss://<container>@<account>.dfs.core.windows.net/<folder>"
        )
    host, sink = host.lower(), urlsplit(account.endpoint)
    # The credential goes to this host. An endpoint with a path is that of an emulator, whose host differs.
    same = host.split(".", 1)[0] == account.name if sink.path else same_account(host, sink.netloc)
    if not same:
        raise ConfigurationError(
            f"spark.output.path is in {host}, the sink in {sink.netloc}: write to the sink's account, at its blob or "
            "dfs endpoint"
        )
    if url.scheme == "abfss" and not account.secure:
        raise ConfigurationError(
            f"spark.output.path {output!r}: the sink's endpoint {account.endpoint} has no TLS: use abfs:// instead"
        )
    if hierarchical is not None and (written := service_of(host)):
        host = host.replace(f".{written}.", ".dfs." if hierarchical else ".blob.", 1)
    # abfs:// to an endpoint with TLS is changed to abfss://: a connection is never weaker than the sink's.
    return AbfsFolder("abfss" if account.secure else "abfs", container, host, url.path.strip("/"))


def input_folder(container: str, output: AbfsFolder) -> AbfsFolder:
    """The root of the sink's container, through the same host as the output."""
    return AbfsFolder(output.scheme, container, output.host, "")


def hadoop_settings(account: StorageAccount, host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Hadoop settings for `host`, including the credential.

    Args:
        account: Contains the credential.
        host: Host of the ABFS URIs, with port if it has one.
        environment: Variables of the workload identity webhook: tenant and token file.

    Raises:
        ConfigurationError: Workload identity without the webhook's environment.
    """
    settings = {
        # v1 renames at the end of the job: on the blob endpoint that fails with partitionBy, and rows of a failed job
        # stay visible.
        "mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if service_of(host) == "blob":
        settings |= {"fs.azure.fns.account.service.type": "BLOB", "fs.azure.account.hns.enabled": "false"}
    if not account.secure:
        settings["fs.azure.always.use.https"] = "false"
    if account.key:
        return settings | {
            f"fs.azure.account.auth.type.{host}": "SharedKey",
            f"fs.azure.account.key.{host}": account.key,
        }
    if account.sas:
        return settings | {
            f"fs.azure.account.auth.type.{host}": "SAS",
            f"fs.azure.sas.fixed.token.{host}": account.sas,
        }
    return settings | _workload_identity(account, host, environment)


def _workload_identity(account: StorageAccount, host: str, environment: Mapping[str, str]) -> dict[str, str]:
    try:
        tenant, token_file = environment["AZURE_TENANT_ID"], environment["AZURE_FEDERATED_TOKEN_FILE"]
    except KeyError as missing:
        raise ConfigurationError(
            f"workload identity: {missing.args[0]} is not set: install the Azure workload identity webhook and "
            "annotate the service account of the Spark pods with azure.workload.identity/client-id"
        ) from None
    return {
        f"fs.azure.account.auth.type.{host}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{host}": _TOKEN_PROVIDER,
        f"fs.azure.account.oauth2.msi.tenant.{host}": tenant,
        f"fs.azure.account.oauth2.client.id.{host}": account.client_id or "",
        f"fs.azure.account.oauth2.token.file.{host}": token_file,
        f"fs.azure.account.oauth2.msi.authority.{host}": environment.get(
            "AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/"
        ),
    }
