"""Locations of a job: account, credential, folders; resolved once, before any other step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.endpoints import service_of
from eventconsumer_api.wire.batch import BatchJob, reprocess_prefix
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES, BatchFolder, OutputRecord, output_record_name
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.abfs import (
    AbfsFolder,
    hadoop_settings,
    input_folder,
    output_folder,
)
from eventconsumer_spark.storage.store import SinkContainer
from eventconsumer_storage.account import StorageAccount, resolve_account
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.errors import StorageError


@dataclass(frozen=True)
class Site:
    """The locations of one job.

    Attributes:
        store: The sink's container: manifests, claims and commits.
        input: The same container, for Spark.
        output: Folder of `spec.spark.output.path`.
        hadoop: Settings for Spark's access to both, including the credential.
        commits: Prefix of claims and commits: the sink's; in reprocessing, a separate one.
        credential: Fingerprint of the mounted credential in `account`. An identity has none: Hadoop
            (WorkloadIdentityTokenProvider) and azure-identity (WorkloadIdentityCredential, every 600 s) read a rotated
            token file.
    """

    account: StorageAccount
    store: SinkContainer
    input: AbfsFolder
    output: AbfsFolder
    hadoop: Mapping[str, str] = field(repr=False)
    commits: str = ""
    credential: str = ""

    def ensure_output(self) -> None:
        """Create the output's container if it is missing.

        Raises:
            ConfigurationError: It is missing, and the sink's credential may not create it.
            StorageError: Storage did not respond.
        """
        with SinkContainer(self.account, self.output.container) as results:
            if not results.ensure_container():
                raise ConfigurationError(
                    f"spec.spark.output.path: no container {self.output.container} is in {self.account.endpoint}: "
                    "create it, or permit the credential of spec.sink to create it"
                )

    def claim_output(self, job: BatchJob) -> OutputRecord:
        """Verify that the output path, and the folders beside it, belong to the chain of this job; return its record.

        Folders of batches are named by their numbers, so two chains would overwrite each other's. The record is not
        part of a table: Spark's file sources skip names that begin with an underscore
        (`HadoopFSUtils.shouldFilterOutPathName`), and Delta's VACUUM keeps them.
        tests/integration/spark/test_identity.py verifies both.

        Raises:
            ConfigurationError: It belongs to another chain.
            StorageError: Storage refused or did not respond, or the record cannot be parsed.
        """
        name = output_record_name(self.output.path)
        own = OutputRecord(
            chain=job.chain,
            sink=f"{self.account.name}/{job.sink.container}/{job.sink.prefix}",
            resource=job.resource.path,
            since=datetime.now(UTC),
            batch_folder=BatchFolder.VISIBLE,
        )
        with SinkContainer(self.account, self.output.container) as results:
            if results.create(name, own.model_dump_json(by_alias=True, indent=2).encode()):
                return own
            content = results.read(name, RECORD_MAX_BYTES) or b""
        try:
            found = OutputRecord.model_validate_json(content)
        except ValidationError:
            raise StorageError(
                f"cannot parse the record {name} in container {self.output.container}: restore it from a backup"
            ) from None
        if found.chain != job.chain:
            raise ConfigurationError(
                f"spec.spark.output.path: {self.output} is the output of EventConsumer {found.resource}, which writes "
                f"batches of chain {found.chain} at {found.sink}, and this is chain {own.chain} of EventConsumer "
                f"{own.resource} at {own.sink}: batches of a number would overwrite each other: set another path"
            )
        return found


@contextmanager
def open_site(job: BatchJob, environment: Mapping[str, str]) -> Iterator[Site]:
    """Resolve the locations of a job.

    Raises:
        ConfigurationError: The credential or the output's path is invalid, or an endpoint is not allowed: the
            Secret may have changed since hosts checked it.
        StorageError: Storage did not respond.
    """
    credential = fingerprint([job.sink.credential])  # before it is read: a change in between must count
    try:
        account = resolve_account(
            job.sink, "spec.sink", allow_insecure=job.allow_insecure_endpoints, suffixes=job.storage_suffixes
        )
    except Blocked as error:
        raise ConfigurationError(str(error)) from None
    output = output_folder(job.output.path, account)
    commits = reprocess_prefix(job.sink.prefix, job.reprocess.name) if job.reprocess else job.sink.prefix
    with SinkContainer(account, job.sink.container) as store:
        if service_of(output.host) == "blob":
            output = output_folder(job.output.path, account, hierarchical=store.is_hierarchical())
        hadoop = hadoop_settings(account, output.host, environment)
        yield Site(account, store, input_folder(job.sink.container, output), output, hadoop, commits, credential)
