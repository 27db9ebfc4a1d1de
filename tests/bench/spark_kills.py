"""Drivers killed at random moments: are the rows in the end those of a run without a kill, and nothing twice?

    python -m tests.bench.spark_kills [--batches 10] [--seed 1] [--format Delta]

Each batch is started like the operator does it, attempt after attempt; the first attempt of each batch, and every
second one after, is killed (SIGKILL to Java and Python) at a moment drawn from the time that an undisturbed attempt
took, at a batch before the others.
Prints one table, and exits with 1 where a row is missing or there twice.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
from azure.storage.blob import BlobServiceClient

from eventconsumer_api.spec.spark import OutputFormat
from eventconsumer_api.wire.batch import BatchCommit, BatchJob
from tests.integration.spark.drained import DrainedBatch, host_name
from tests.integration.spark.drivers import ROOT, fetch_jars, kill, start_driver
from tests.support.azurite import AzuriteProcess, azurite_with_client

JOB = ROOT / "spark/src/eventconsumer_spark/job.py"
FILES, EVENTS = 3, 400


def main() -> int:
    """Run the batches; 0 where every row is there once."""
    options = arguments()
    chance = random.Random(options.seed)
    jars = fetch_jars()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with azurite_with_client(folder) as (azurite, service):
            return run(options, chance, jars, folder, azurite, service)


def arguments() -> argparse.Namespace:
    """Options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=[str(kind) for kind in OutputFormat], default="Delta")
    return parser.parse_args()


def run(
    options: argparse.Namespace,
    chance: random.Random,
    jars: str,
    folder: Path,
    azurite: AzuriteProcess,
    service: BlobServiceClient,
) -> int:
    """Batch after batch."""
    secret = folder / "connectionString"
    secret.write_text(azurite.connection_string)
    drained = DrainedBatch(service.create_container(azurite.container()), host_name(azurite.port), str(secret))
    kills, wanted = 0, Counter[tuple[str, int]]()
    seconds = 0.0
    print(f"{'batch':>5} {'attempts':>8}  killed after, seconds")
    job = None
    for number in range(1, options.batches + 2):
        drained.files, drained.events = [], []
        for file in range(FILES):
            drained.slot("0", ((number - 1) * FILES + file) * EVENTS, EVENTS)
        wanted.update((str(row["partition_id"]), int(str(row["sequence_number"]))) for row in drained.events)
        job = drained.freeze(number)
        job = job.model_copy(update={"output": job.output.model_copy(update={"format": OutputFormat(options.format)})})
        moments, attempt = [], 0
        while drained.commit(number) is None:
            attempt += 1
            if attempt > 12:
                print(f"batch {number} is not committed after {attempt - 1} attempts")
                return 1
            moment = chance.uniform(1, seconds) if attempt % 2 and number > 1 else None
            began = time.monotonic()
            ended = drive(job.model_copy(update={"attempt": attempt}), jars, folder, moment)
            if moment is not None and ended == "killed":
                moments.append(moment)
            elif ended == "0":
                # Later ones may have waited for another's lease.
                seconds = seconds or time.monotonic() - began
            else:
                print(f"batch {number}, attempt {attempt}:\n{ended}")
                return 1
        kills += len(moments)
        print(f"{number:>5} {attempt:>8}  {', '.join(f'{moment:.1f}' for moment in moments)}", flush=True)
    assert job is not None
    return judge(job, service, options, wanted, kills, drained)


def drive(job: BatchJob, jars: str, folder: Path, moment: float | None) -> str:
    """One attempt, killed after `moment` seconds; "killed", "0", or what it said."""
    process = start_driver(jars, folder, job, JOB)
    if moment is None:
        output, _ = process.communicate(timeout=300)
        return "0" if process.returncode == 0 else output
    timer = threading.Timer(moment, kill, [process])
    timer.start()
    output, _ = process.communicate(timeout=300)
    timer.cancel()
    timer.join()
    return "killed" if process.returncode == -9 else "0" if process.returncode == 0 else output


def judge(
    job: BatchJob,
    service: BlobServiceClient,
    options: argparse.Namespace,
    wanted: Counter[tuple[str, int]],
    kills: int,
    drained: DrainedBatch,
) -> int:
    """Hold the output against what was drained."""
    container = service.get_container_client(f"{job.sink.container}-out")
    if options.format == "Delta":
        names = delta_files(container.container_name, service)
    else:
        names = [blob.name for blob in container.list_blobs("results/")]
    found = Counter[tuple[str, int]]()
    for name in names:
        if name.endswith(".parquet"):
            table = pq.read_table(
                BytesIO(container.download_blob(name).readall()), columns=["partition_id", "sequence_number"]
            )
            found.update((row["partition_id"], row["sequence_number"]) for row in table.to_pylist())
    last = BatchCommit.model_validate_json(drained.commit(options.batches + 1) or b"")
    missing, twice = wanted - found, found - wanted
    print(
        f"{options.batches + 1} batches ({options.format}), {kills} drivers killed, {wanted.total()} rows drained, "
        f"{found.total()} in the output, {missing.total()} missing, {twice.total()} twice or foreign; the commits' "
        f"totals say {last.totals.rows_written}"
    )
    return 0 if not missing and not twice and last.totals.rows_written == wanted.total() else 1


def delta_files(container: str, service: BlobServiceClient) -> list[str]:
    """Data files of the newest version of the table, by a reader that is not Spark."""
    from deltalake import DeltaTable

    account = {
        "account_name": str(service.account_name),
        "account_key": str(service.credential.account_key),
        "azure_storage_endpoint": str(service.url),
        "allow_http": "true",
    }
    table = DeltaTable(f"az://{container}/results", storage_options=account)
    return [f"results/{uri.partition('/results/')[2]}" for uri in table.file_uris()]


if __name__ == "__main__":
    sys.exit(main())
