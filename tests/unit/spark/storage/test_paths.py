"""Locations of a job: the driver checks endpoints itself, because the Secret may have changed since the hosts did."""

from pathlib import Path

import pytest

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_api.wire.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.paths import open_site

KEY = "c2VjcmV0LWtleQ=="
ACCOUNT = f"AccountName=shop;AccountKey={KEY}"
IDENTITY = Credential(field="spec.sink.authentication.workloadIdentity", client_id="client")
ENVIRONMENT = {"AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": "/token"}


def job(credential: Credential, output_host: str, url: str | None = None, **settings: object) -> BatchJob:
    """A job whose output is at a host."""
    return BatchJob.model_validate(
        {
            "chain": "c1",
            "resource": ResourceRef(namespace="shop", name="orders", uid="uid-1"),
            "application": "orders-uid1-b3",
            "number": 3,
            "sink": BlobLocation(container="drained", prefix="p", credential=credential, storage_account_url=url),
            "output": SparkOutput(path=f"abfss://results@{output_host}/orders"),
        }
        | settings
    )


def in_secret(folder: Path, text: str) -> Credential:
    """The credential of a Secret with a text."""
    file = folder / "connection-string"
    file.write_text(text)
    return Credential(field="spec.sink.x", secret="s", key="k", connection_string_file=str(file))


@pytest.mark.parametrize(
    ("text", "output", "cause"),
    [
        (f"BlobEndpoint=https://shop.servicebus.windows.net;{ACCOUNT}", "shop.servicebus.windows.net", "storageSuff"),
        ("BlobEndpoint=https://shop.servicebus.windows.net;SharedAccessSignature=sig=x", "shop.x", "storageSuffixes"),
        (f"BlobEndpoint=https://collector.example;{ACCOUNT}", "shop.blob.core.windows.net", "storageSuffixes"),
        (f"BlobEndpoint=https://127.0.0.1/shop;{ACCOUNT}", "shop.blob.core.windows.net", "address of this machine"),
        (f"BlobEndpoint=http://shop.blob.core.windows.net;{ACCOUNT}", "shop.blob.core.windows.net", "plain endpoint"),
        (ACCOUNT, "shop.servicebus.windows.net", "write to the sink's account"),
    ],
)
def test_a_secret_that_changed_sends_no_credential_elsewhere(
    tmp_path: Path, text: str, output: str, cause: str
) -> None:
    with (
        pytest.raises(ConfigurationError, match=cause) as raised,
        open_site(job(in_secret(tmp_path, text), output), {}),
    ):
        pass
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["https://shop.servicebus.windows.net", "https://collector.example", "https://shop.blob.core.windows.net/other"],
)
def test_a_token_goes_to_storage_accounts_only(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    bad = job(IDENTITY, "shop.servicebus.windows.net", url)
    with pytest.raises(ConfigurationError, match="storageSuffixes"), open_site(bad, ENVIRONMENT):
        pass


def test_the_job_names_the_suffixes_of_the_administrator(tmp_path: Path) -> None:
    credential = in_secret(tmp_path, f"BlobEndpoint=https://shop.blob.azure.example;{ACCOUNT}")
    output = "shop.dfs.azure.example"
    with open_site(job(credential, output, storage_suffixes=("azure.example",)), {}) as site:
        assert site.hadoop[f"fs.azure.account.key.{output}"] == KEY
    with pytest.raises(ConfigurationError, match="storageSuffixes"), open_site(job(credential, output), {}):
        pass
