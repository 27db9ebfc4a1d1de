"""Folders that Spark reads and writes, and their settings."""

import pytest

from eventconsumer_api.wire.identity import BatchFolder
from eventconsumer_spark.batch import folders, trial_folders
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.abfs import hadoop_settings, input_folder, output_folder
from eventconsumer_storage.account import StorageAccount

CLOUD = StorageAccount("https://shop.blob.core.windows.net", "shop", key="a2V5")
LOCAL_HOST = "shop.blob.svc.cluster.local:10000"
LOCAL = StorageAccount(f"http://{LOCAL_HOST}", "shop", key="a2V5")


def test_output_and_input_share_the_host_that_the_user_chose() -> None:
    output = output_folder("abfss://results@shop.dfs.core.windows.net/a/b/", CLOUD)
    assert str(output) == "abfss://results@shop.dfs.core.windows.net/a/b"
    assert folders(output, BatchFolder.VISIBLE.of(7)).output == "abfss://results@shop.dfs.core.windows.net/a/b/batch=7"
    drained = input_folder("drained", output)
    assert drained.child("x/from=1.parquet") == "abfss://drained@shop.dfs.core.windows.net/x/from=1.parquet"


@pytest.mark.parametrize("written", ["blob", "dfs"])
@pytest.mark.parametrize(("hierarchical", "used"), [(True, "dfs"), (False, "blob"), (None, None)])
def test_the_account_decides_the_endpoint(hierarchical: bool | None, used: str | None, written: str) -> None:
    output = output_folder(f"abfss://results@shop.{written}.core.windows.net/a", CLOUD, hierarchical=hierarchical)
    assert str(output) == f"abfss://results@shop.{used or written}.core.windows.net/a"
    settings = hadoop_settings(CLOUD, output.host, {})
    assert ("fs.azure.fns.account.service.type" in settings) == ((used or written) == "blob")


def test_output_may_be_the_root_of_a_container() -> None:
    root = folders(output_folder(f"abfs://results@{LOCAL_HOST}", LOCAL), "_batch=1")
    assert root.output == f"abfs://results@{LOCAL_HOST}/_batch=1"
    assert root.quarantine == f"abfs://results@{LOCAL_HOST}/_quarantine/_batch=1"


def test_reprocessing_and_trial_write_to_folders_of_their_own() -> None:
    output = output_folder("abfss://results@shop.dfs.core.windows.net/a/b", CLOUD)
    reprocess = folders(output, "batch=7", "again")
    assert str(reprocess.table) == "abfss://results@shop.dfs.core.windows.net/a/b_reprocess/again"
    assert reprocess.quarantine == "abfss://results@shop.dfs.core.windows.net/a/b_reprocess/again_quarantine/batch=7"
    for real in (folders(output, "batch=7"), reprocess):
        trial = trial_folders(real, 7)
        assert real.trials == f"{real.table}_trial"
        for folder in (str(trial.table), trial.output, trial.quarantine):
            assert folder.startswith(f"{real.trials}/")


def test_connection_is_never_weaker_than_the_sinks() -> None:
    assert output_folder("abfs://results@shop.blob.core.windows.net/a", CLOUD).scheme == "abfss"


@pytest.mark.parametrize(
    ("path", "account", "remedy"),
    [
        ("s3://bucket/folder", CLOUD, "use abfss://<container>@<account>.dfs.core.windows.net/<folder>"),
        ("abfss://shop.blob.core.windows.net/folder", CLOUD, "use abfss://"),
        ("abfss://results@other.blob.core.windows.net/a", CLOUD, "write to the sink's account"),
        # The first label alone is not the account: the credential would go to a host of somebody else.
        ("abfss://results@shop.servicebus.windows.net/a", CLOUD, "write to the sink's account"),
        ("abfss://results@shop.blob.core.chinacloudapi.cn/a", CLOUD, "write to the sink's account"),
        ("abfss://results@shop.blob.core.windows.net:8443/a", CLOUD, "write to the sink's account"),
        ("abfss://results@shop.z01.blob.storage.azure.net/a", CLOUD, "write to the sink's account"),
        (f"abfss://results@{LOCAL_HOST}/a", LOCAL, "use abfs:// instead"),
    ],
)
def test_impossible_output_is_refused(path: str, account: StorageAccount, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.output\.path") as raised:
        output_folder(path, account)
    assert remedy in str(raised.value)


def test_blob_endpoint_without_tls() -> None:
    settings = hadoop_settings(LOCAL, LOCAL_HOST, {})
    assert settings["fs.azure.fns.account.service.type"] == "BLOB"
    assert settings["fs.azure.account.hns.enabled"] == "false"
    assert settings["fs.azure.always.use.https"] == "false"
    assert settings[f"fs.azure.account.key.{LOCAL_HOST}"] == "a2V5"
    assert settings["mapreduce.fileoutputcommitter.algorithm.version"] == "2"


def test_dfs_endpoint_finds_out_itself_whether_the_namespace_is_hierarchical() -> None:
    settings = hadoop_settings(CLOUD, "shop.dfs.core.windows.net", {})
    assert not {"fs.azure.fns.account.service.type", "fs.azure.account.hns.enabled", "fs.azure.always.use.https"} & set(
        settings
    )


def test_shared_access_signature() -> None:
    account = StorageAccount(CLOUD.endpoint, "shop", sas="sv=1&sig=x")
    settings = hadoop_settings(account, "shop.blob.core.windows.net", {})
    assert settings["fs.azure.account.auth.type.shop.blob.core.windows.net"] == "SAS"
    assert settings["fs.azure.sas.fixed.token.shop.blob.core.windows.net"] == "sv=1&sig=x"


def test_workload_identity_uses_the_settings_of_the_webhook() -> None:
    account = StorageAccount(CLOUD.endpoint, "shop", client_id="client")
    host = "shop.blob.core.windows.net"
    settings = hadoop_settings(account, host, {"AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": "/token"})
    assert settings[f"fs.azure.account.auth.type.{host}"] == "OAuth"
    assert settings[f"fs.azure.account.oauth.provider.type.{host}"].endswith(".WorkloadIdentityTokenProvider")
    assert settings[f"fs.azure.account.oauth2.client.id.{host}"] == "client"
    assert settings[f"fs.azure.account.oauth2.msi.tenant.{host}"] == "tenant"
    assert settings[f"fs.azure.account.oauth2.token.file.{host}"] == "/token"


def test_workload_identity_without_the_webhook_names_the_webhook_to_install() -> None:
    account = StorageAccount(CLOUD.endpoint, "shop", client_id="client")
    with pytest.raises(ConfigurationError, match=r"AZURE_FEDERATED_TOKEN_FILE.*workload identity webhook"):
        hadoop_settings(account, "shop.blob.core.windows.net", {"AZURE_TENANT_ID": "tenant"})
