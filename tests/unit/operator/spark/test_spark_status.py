"""What people read about Spark: why a batch failed or waits, and what to change; history; reprocessing of batches."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.spark import ApplicationHistory
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, SparkStatus, WatermarkStatus
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_api.wire.host_report import CommitReport, FleetReport, WatermarkReport
from eventconsumer_operator.conditions.status import make_status
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.names import application_name, reprocess_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.applications import application_of
from eventconsumer_operator.spark.attempts import Attempts
from eventconsumer_operator.spark.plan import outdated
from tests.unit.operator.worlds import (
    KEY,
    NOW,
    SETTINGS,
    SPARK,
    SPEC,
    UID,
    USER_IMAGE,
    batch,
    fleet,
    job,
    observed,
    pod,
    report,
    spec_with,
)

NAME = application_name(KEY, UID, 1, 1)
WITH_SPARK = SPEC | SPARK
LATER = NOW + timedelta(seconds=100)
LOCAL = {"spec": {"template": {"spec": {"containers": [{"args": ["driver", "--local", "1"]}]}}}}
EXECUTORS = spec_with("spark.mode", "Executors", WITH_SPARK)


def world(
    *jobs: Manifest,
    spec: dict[str, Any] = WITH_SPARK,
    leader: FleetReport | None = None,
    memory: SparkStatus | None = None,
    drivers: tuple[Manifest, ...] = (),
    executors: tuple[Manifest, ...] = (),
    now: Any = LATER,
) -> Observed:
    found = observed(
        spec,
        applications=jobs,
        drivers=drivers,
        reports={"a": report(fleet=leader or fleet(batch=batch()))},
        status=EventConsumerStatus(spark=memory, observed_generation=1),
        now=now,
    )
    return _with(found, executors=executors)


def _with(found: Observed, **changes: Any) -> Observed:
    return Observed(**{name: getattr(found, name) for name in found.__dataclass_fields__} | changes)


def status_of(seen: Observed, *, started: bool = False) -> EventConsumerStatus:
    return make_status(seen, make_plan(seen, SETTINGS), (), SETTINGS, started=started)


def healthy(seen: Observed) -> tuple[str, str, str]:
    found = next(each for each in status_of(seen).conditions if each.type == "SparkHealthy")
    return found.status, found.reason, found.message


def failed(reason: str = "BackoffLimitExceeded", **more: Any) -> Manifest:
    made = job(NAME, type="Failed", reason=reason, message="it failed", lastTransitionTime=LATER.isoformat())
    return made | LOCAL | more


def driver(status: dict[str, Any], name: str = f"{NAME}-x", owner: str = f"uid-of-{NAME}") -> Manifest:
    made = pod(name, **status)
    made["metadata"] |= {"uid": f"uid-of-{name}", "ownerReferences": [{"uid": owner, "controller": True}]}
    return made


def ended(**terminated: Any) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 1} | terminated}}]}


def why(*drivers: Manifest, spec: dict[str, Any] = WITH_SPARK, found: Manifest | None = None, **more: Any) -> str:
    status, reason, message = healthy(world(found or failed(), spec=spec, drivers=drivers, **more))
    assert (status, reason) == ("False", "SparkRetrying")
    return message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (ended(reason="OOMKilled", exitCode=137), r"raise spec.spark.driver.memory (now 1g)"),
        (ended(message="java.lang.OutOfMemoryError: Java heap space"), "raise spec.spark.driver.memory (now 1g)"),
        (ended(exitCode=137), "the driver was killed (exit code 137), by a user or by its node"),
        (ended(exitCode=3), "the driver exited with code 3: kubectl logs job/"),
        (
            ended(message="StorageError: container x: create it"),
            "in a row): StorageError: container x: create it; attempt",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory", **ended()},
            "the cluster terminated the driver pod: Evicted: low on memory",
        ),
        (
            ended(message="told to end")
            | {"conditions": [{"type": "DisruptionTarget", "status": "True", "message": "preempted"}]},
            "the cluster terminated the driver pod: preempted",
        ),
    ],
)
def test_why_a_driver_failed_and_what_to_change(status: dict[str, Any], expected: str) -> None:
    assert expected in why(driver(status))


@pytest.mark.parametrize(
    "said",
    ["ExecutorLostFailure (executor 1 exited: exit code 137)", "Python worker exited unexpectedly (crashed)"],
)
def test_a_lost_executor_names_the_executors_memory(said: str) -> None:
    large = failed(spec={"template": {"spec": {"containers": [{"args": ["driver", "--conf"]}]}}})
    assert "raise spec.spark.executor.memory (now 1g)" in why(driver(ended(message=said)), spec=EXECUTORS, found=large)
    killed = driver(ended(reason="OOMKilled", exitCode=137), "executor-1", f"uid-of-{NAME}-x")
    text = why(driver(ended(message="x")), spec=EXECUTORS, found=large, executors=(killed,))
    assert "an executor was killed (OOMKilled): raise spec.spark.executor.memory" in text


def test_an_application_that_takes_too_long() -> None:
    text = why(driver(ended(message="told to end")), found=failed("DeadlineExceeded"))
    assert "did not end within spec.spark.timeoutSeconds (3600): raise it" in text


def test_an_attempt_without_executors_until_its_end_names_them_and_not_its_time() -> None:
    """The time limit is the last event, and what it waited for the first cause."""
    large = {"spec": {"template": {"spec": {"containers": [{"args": ["driver", "--conf"]}]}}}}
    runs = job(NAME) | large | {"status": {"active": 1, "ready": 1}}
    begun = SparkStatus(last_batch=1, attempt=1, last_application=NAME)
    late = NOW + timedelta(minutes=50)
    waits = world(runs, spec=EXECUTORS, drivers=(driver({"phase": "Running"}),), memory=begun, now=late)
    status = status_of(waits).spark
    assert status is not None
    assert status.waiting.startswith("0 of 2 executors are running: the driver log shows the cause")
    over = world(failed("DeadlineExceeded") | large, spec=EXECUTORS, memory=status, now=late)
    after = status_of(over).spark
    assert after is not None
    assert after.last_failure == f"{status.waiting}; so the attempt did not end within spec.spark.timeoutSeconds (3600)"
    assert "raise spec.spark" not in after.last_failure
    started = world(
        runs,
        spec=EXECUTORS,
        drivers=(driver({"phase": "Running"}),),
        memory=status,
        now=late,
        executors=(driver({"phase": "Running"}, "executor-1", f"uid-of-{NAME}-x"),),
    )
    seen = status_of(started).spark
    assert seen is not None and seen.waiting == ""
    assert "1 of 2 executors are running; 1 executor pod missing" in healthy(started)[2]


def test_a_driver_that_a_quota_refuses_names_it_also_after_its_time() -> None:
    said = 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: driver'
    begun = SparkStatus(last_batch=1, attempt=1, last_application=NAME)
    seen = _with(world(job(NAME), memory=begun), refusals={f"uid-of-{NAME}": said})
    status, reason, message = healthy(seen)
    assert (status, reason) == ("False", "SparkWaiting")
    assert f"{said}: set spec.spark.driver.cpuLimit" in message
    first = status_of(seen)
    assert [each.cause for each in first.missing] == [said]
    # The Event expires, and the Job reaches its time limit.
    again = replace(seen, refusals={}, consumer=replace(seen.consumer, status=first))
    assert said in healthy(again)[2]
    over = replace(again, applications=(failed("DeadlineExceeded"),))
    ended_ = status_of(over).spark
    assert ended_ is not None and said in ended_.last_failure and "driver.cores" not in ended_.last_failure


def test_a_driver_that_the_kubelet_ended_because_of_its_time() -> None:
    text = why(driver(ended(message="told to end") | {"reason": "DeadlineExceeded"}))
    assert "did not end within spec.spark.timeoutSeconds" in text


def test_a_driver_that_is_starting_is_no_trouble() -> None:
    creating = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}
    for seconds, verdict in ((290, "True"), (310, "False")):
        seen = world(job(NAME), drivers=(driver(creating),), now=NOW + timedelta(seconds=seconds))
        assert healthy(seen)[0] == verdict
    assert "check that Secret s with key k exists, and that the image can be pulled" in healthy(seen)[2]
    volumes = [
        {"mountPath": "/config/a", "configMap": {"name": "shop"}},
        {"mountPath": "/config/b", "configMap": {"name": "maybe", "optional": True}},
        {"mountPath": "/secrets/c", "secret": {"secretName": "database"}},
    ]
    needing = spec_with("spark.application", {"image": USER_IMAGE, "volumes": volumes}, WITH_SPARK)
    late = NOW + timedelta(seconds=310)
    message = healthy(world(job(NAME), spec=needing, drivers=(driver(creating),), now=late))[2]
    assert "; its volumes need ConfigMap shop and Secret database: create what is missing" in message
    assert "maybe" not in message


def test_a_driver_whose_variables_have_no_source_names_it_with_the_remedy() -> None:
    said = 'configmap "shop" not found'
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": said}}, "image": "spark:1"}
    seen = world(job(NAME), drivers=(driver({"phase": "Pending", "containerStatuses": [waiting]}),))
    status, reason, message = healthy(seen)
    assert (status, reason) == ("False", "SparkWaiting")
    assert f"CreateContainerConfigError: {said}: create it, or correct env and envFrom in the spec" in message


def test_no_secret_is_shown() -> None:
    secret = "AccountKey=" + "A" * 44
    text = status_of(world(failed(), drivers=(driver(ended(message=f"x {secret}")),))).model_dump_json()
    assert "A" * 44 not in text
    assert redact(secret) != secret


def test_what_was_seen_of_a_failure_stands_when_its_pod_is_gone() -> None:
    memory = SparkStatus(last_batch=1, attempt=1, failures=1, last_failure="out of luck", next_attempt_time=LATER)
    for found in ((failed(),), ()):
        assert "attempt 1 failed (1 of 3 in a row): out of luck" in healthy(world(*found, memory=memory, now=NOW))[2]


def test_failures_are_over_with_the_commit() -> None:
    memory = SparkStatus(last_batch=1, attempt=3, failures=3, last_failure="x", next_attempt_time=LATER)
    found = status_of(world(memory=memory, leader=fleet(committed=1))).spark
    assert found is not None
    assert (found.last_batch, found.attempt, found.failures, found.last_failure) == (1, 3, 0, "")
    assert found.next_attempt_time is None
    waiting = status_of(world(memory=memory, leader=fleet(committed=1, batch=batch(2)))).spark
    assert waiting is not None and (waiting.last_batch, waiting.failures) == (1, 0)  # 2 is not started yet


def test_a_started_attempt_is_shown_at_once() -> None:
    found = status_of(world(), started=True).spark
    assert found is not None
    assert (found.last_batch, found.attempt, found.last_application, found.mode) == (1, 1, NAME, "Local")
    assert status_of(world(spec=EXECUTORS), started=True).spark.mode == "Executors"  # type: ignore[union-attr]
    refused = status_of(world()).spark
    assert refused is not None and (refused.last_batch, refused.attempt) == (0, 0)


def test_a_driver_that_is_refused_a_pod() -> None:
    assert healthy(world(job(NAME), now=NOW))[:2] == ("True", "Progressing")
    status, reason, message = healthy(world(job(NAME)))
    assert (status, reason) == ("False", "SparkWaiting")
    assert "quota" in message and f"kubectl describe job/{NAME}" in message


def test_executors_that_do_not_start() -> None:
    running = job(NAME) | {"status": {"ready": 1}}
    waiting = pod("e")
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
    }
    waiting["metadata"] |= {"ownerReferences": [{"uid": f"uid-of-{NAME}-x", "controller": True}]}
    busy = {**waiting, "metadata": waiting["metadata"] | {"name": "f"}, "status": {"phase": "Running"}}
    drivers = (driver({"phase": "Running"}),)
    late = NOW + timedelta(seconds=200)
    large = running | {"spec": {"template": {"spec": {"containers": [{"args": ["driver"]}]}}}}
    status, reason, message = healthy(world(large, spec=EXECUTORS, drivers=drivers, executors=(waiting,), now=late))
    assert (status, reason) == ("False", "SparkWaiting")
    assert "0 of 2 executors are running: pod e: Unschedulable: no room" in message
    status, _, message = healthy(world(large, spec=EXECUTORS, drivers=drivers, executors=(waiting, busy), now=late))
    assert status == "True" and "1 of 2 executors are running; pod e: Unschedulable" in message
    scaled = spec_with("spark.executor", {"instances": 4, "minInstances": 1}, EXECUTORS)
    message = healthy(world(large, spec=scaled, drivers=drivers, executors=(busy,), now=late))[2]
    assert "1 of at most 4 executors are running" in message
    none = world(large, spec=EXECUTORS, drivers=drivers, now=late)
    assert "0 of 2 executors are running" in healthy(none)[2]
    assert healthy(world(running | LOCAL, drivers=drivers, now=late))[0] == "True"  # it has none


def commit(**changes: Any) -> CommitReport:
    return CommitReport(number=1, committed_at=NOW, application="a", rows_read=5, rows_written=4, seconds=2, **changes)


def test_files_and_events_left_out_are_shown() -> None:
    leader = fleet(committed=1).model_copy(
        update={"last_commit": commit(quarantined_files=1, quarantined_rows=3, quarantine="batch 1: p/0: bad")}
    )
    status, reason, message = healthy(world(leader=leader))
    assert (status, reason) == ("True", "SparkQuarantined")
    assert "1 file, 3 events in other files; batch 1: p/0: bad" in message
    found = status_of(world(leader=leader)).spark
    assert found is not None and found.quarantine is not None and found.last_commit is not None
    assert (found.quarantine.files, found.last_commit.rows_written) == (1, 4)


def test_the_watermark_of_committed_batches_is_shown() -> None:
    for watermark, expected in (
        (None, None),
        (WatermarkReport(files=NOW), None),
        (WatermarkReport(files=NOW, commits=NOW, batch=3), WatermarkStatus(time=NOW, batch=3)),
    ):
        leader = fleet(committed=3).model_copy(update={"watermark": watermark})
        found = status_of(world(leader=leader)).spark
        assert found is not None and found.watermark == expected


def test_files_that_come_faster_than_they_are_processed() -> None:
    leader = fleet(batch=batch()).model_copy(update={"pending_files": 30, "pending_bytes": 10})
    tight = spec_with("spark.batch", {"maxFiles": 19}, WITH_SPARK)
    local = job(NAME) | LOCAL
    status, reason, message = healthy(world(local, spec=tight, leader=leader, now=NOW))
    assert (status, reason) == ("True", "SparkBehind")
    assert "Raise spec.spark.driver.cores" in message
    assert healthy(world(local, leader=leader, now=NOW))[1] == "Progressing"
    window = spec_with("spark.trigger", {"windowSeconds": 3600}, tight)
    assert healthy(world(local, spec=window, leader=leader, now=NOW))[1] == "Progressing"  # files wait for its end
    large = healthy(world(job(NAME), spec=spec_with("spark.mode", "Executors", tight), leader=leader, now=NOW))
    assert "Raise spec.spark.executor.instances (now 2)" in large[2]


# --- resident drivers ----------------------------------------------------------------------------------------------


def resident(**more: Any) -> Manifest:
    made = job(NAME) | {"status": {"ready": 1}} | more
    made["metadata"]["annotations"] = {"eventconsumer.io/resident": "d"}
    return made


def second_batch(seconds_ago: float = 10) -> FleetReport:
    frozen = LATER - timedelta(seconds=seconds_ago)
    return fleet(committed=1, batch=batch(2).model_copy(update={"created_at": frozen}))


def test_a_resident_driver_is_shown_while_it_processes_a_later_batch_and_while_it_waits() -> None:
    spec = spec_with("spark.idleTimeoutSeconds", 300, WITH_SPARK)
    seen = world(resident(**LOCAL), spec=spec, leader=second_batch())
    spark = status_of(seen).spark
    assert spark is not None
    assert (spark.last_batch, spark.attempt, spark.last_application, spark.mode) == (2, 1, NAME, "Local")
    assert healthy(seen)[1:] == ("Progressing", f"batch 2 (10 files): attempt 1 runs: by the resident driver {NAME}")
    idle = world(resident(**LOCAL), spec=spec, leader=fleet(committed=1))
    assert healthy(idle)[1:] == ("Idle", f"no batch is open; the resident driver {NAME} waits for the next batch")


def test_a_failed_resident_driver_keeps_its_name_and_its_cause() -> None:
    memory = SparkStatus(last_batch=2, attempt=1, last_application=NAME)
    lost = resident() | {"status": failed()["status"]}
    seen = world(lost, leader=second_batch(), memory=memory, drivers=(driver(ended(reason="OOMKilled", exitCode=137)),))
    spark = status_of(seen).spark
    assert spark is not None and (spark.attempt, spark.failures, spark.last_application) == (1, 1, NAME)
    assert "raise spec.spark.driver.memory" in spark.last_failure
    gone = status_of(world(leader=second_batch(), memory=spark)).spark
    assert gone is not None and (gone.last_application, gone.last_failure) == (NAME, spark.last_failure)


def test_a_resident_driver_without_executors_is_reported_only_some_time_after_a_batch_begins() -> None:
    spec = spec_with("spark.idleTimeoutSeconds", 300, EXECUTORS)
    now = LATER + timedelta(hours=1)
    for seconds_ago, reason in ((170, "Progressing"), (190, "SparkWaiting")):
        told = fleet(
            committed=1, batch=batch(2).model_copy(update={"created_at": now - timedelta(seconds=seconds_ago)})
        )
        seen = world(resident(), spec=spec, leader=told, now=now, drivers=(driver({"phase": "Running"}),))
        assert healthy(seen)[1] == reason


def test_a_batch_that_no_operator_saw_open_has_one_attempt() -> None:
    spark = status_of(world(leader=fleet(committed=3))).spark
    assert spark is not None and (spark.last_batch, spark.attempt) == (3, 1)


# --- history -------------------------------------------------------------------------------------------------------


def finished(how: str, number: int, attempt: int = 1, seconds_ago: int = 0) -> Manifest:
    when = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return job(f"b{number}a{attempt}", number, attempt, type=how, lastTransitionTime=when)


def cleaned(*jobs: Manifest, state: Attempts | None = None, **limits: int) -> set[str]:
    found = tuple(map(application_of, jobs))
    history = ApplicationHistory.model_validate({"succeeded": 1, "failed": 1, "ttlSeconds": 100} | limits)
    return {each.name for each in outdated(found, history, state or Attempts(), NOW)}


def test_the_newest_of_each_kind_stay() -> None:
    jobs = [finished("Complete", n, seconds_ago=90 - n) for n in (1, 2, 3)]
    jobs += [finished("Failed", n, seconds_ago=90 - n) for n in (4, 5)]
    assert cleaned(*jobs, job("b6a1", 6)) == {"b1a1", "b2a1", "b4a1"}
    assert cleaned(*jobs, succeeded=3, failed=0) == {"b4a1", "b5a1"}


def test_none_stays_for_longer_than_its_time() -> None:
    assert cleaned(finished("Complete", 1, seconds_ago=101)) == {"b1a1"}
    assert cleaned(finished("Complete", 1, seconds_ago=100)) == set()


def test_the_newest_attempt_at_the_open_batch_stays_whatever_the_limits_say() -> None:
    jobs = [finished("Failed", 7, 1, 500), finished("Failed", 7, 2, 400)]
    newest = Attempts(batch=7, attempt=2, newest=application_of(jobs[1]))
    assert cleaned(*jobs, state=newest, failed=0) == {"b7a1"}


def test_nothing_is_cleaned_up_while_nobody_tells_which_batch_is_open() -> None:
    old = finished("Complete", 1, seconds_ago=10**6)
    seen = _with(world(old), reports={})
    assert make_plan(seen, SETTINGS).spark.deleted == ()
    assert make_plan(world(old, leader=fleet(committed=1)), SETTINGS).spark.deleted == (old,)


# --- reprocessing of batches ---------------------------------------------------------------------------------------

AGAIN = spec_with("spark.reprocess", {"name": "again", "from": 2, "to": 4}, WITH_SPARK)
REPROCESS = reprocess_name(KEY, UID, "again")


def reprocessed(leader: FleetReport, *jobs: Manifest, spec: dict[str, Any] = AGAIN, **more: Any) -> Observed:
    pods = more.pop("pods", ())
    return _with(world(leader=leader, spec=spec, **more), reprocess_jobs=jobs, reprocess_pods=pods)


def told(seen: Observed) -> Any:
    spark = status_of(seen).spark
    assert spark is not None
    return spark.reprocess


def test_reprocessing_is_one_job_with_an_output_of_its_own() -> None:
    made = make_plan(reprocessed(fleet(committed=4)), SETTINGS).spark.reprocess
    assert made is not None and made["metadata"]["name"] == REPROCESS
    assert made["spec"]["activeDeadlineSeconds"] == 3 * 3600
    environment = {each["name"]: each.get("value") for each in made["spec"]["template"]["spec"]["containers"][0]["env"]}
    found = BatchJob.model_validate_json(environment["EVENTCONSUMER_BATCH_JOB"] or "")
    assert found.reprocess is not None
    assert (found.number, found.reprocess.name, found.reprocess.first, found.reprocess.last) == (2, "again", 2, 4)
    own = made["spec"]["template"]["metadata"]["labels"]
    assert own["app.kubernetes.io/component"] == "reprocess" and "eventconsumer.io/batch" not in own
    state = told(reprocessed(fleet(committed=4)))
    assert (state.state, state.output) == ("Pending", "abfss://out@shop.dfs.core.windows.net/orders_reprocess/again")


@pytest.mark.parametrize(
    "seen",
    [
        reprocessed(fleet(committed=3)),
        reprocessed(fleet(committed=4), job(REPROCESS)),
        reprocessed(fleet(committed=4), spec=AGAIN | {"suspend": True}),
        reprocessed(fleet(committed=4), spec=spec_with("spark.enabled", False, AGAIN)),
        _with(reprocessed(fleet(committed=4)), reports={}),
    ],
    ids=["not committed", "runs", "suspended", "disabled", "nobody tells"],
)
def test_no_reprocessing_is_started(seen: Observed) -> None:
    assert make_plan(seen, SETTINGS).spark.reprocess is None


def test_what_reprocessing_waits_for() -> None:
    assert (
        "batch 4 (spec.spark.reprocess.to) is not committed yet; the last committed batch is 3"
        in told(reprocessed(fleet(committed=3))).message
    )


def test_reprocessing_that_is_not_wanted_any_more_is_ended() -> None:
    running, over = job(REPROCESS), job("old", type="Complete")
    other = spec_with("spark.reprocess.name", "new", AGAIN)
    assert make_plan(reprocessed(fleet(committed=4), running, over, spec=other), SETTINGS).spark.deleted == (running,)
    off = spec_with("spark.enabled", False, AGAIN)
    assert make_plan(reprocessed(fleet(committed=4), running, spec=off), SETTINGS).spark.deleted == (running,)
    assert make_plan(reprocessed(fleet(committed=4), running), SETTINGS).spark.deleted == ()


def test_how_far_reprocessing_is() -> None:
    leader = fleet(committed=4)
    assert told(reprocessed(leader, job(REPROCESS))).state == "Running"
    own = driver(
        ended(exitCode=0, message='{"batches": 3, "rows": 70}') | {"phase": "Succeeded"}, "p", f"uid-of-{REPROCESS}"
    )
    done = told(reprocessed(leader, job(REPROCESS, type="Complete"), pods=(own,)))
    assert (done.state, done.batches, done.rows) == ("Succeeded", 3, 70)
    memory = SparkStatus(reprocess=done)
    gone = reprocessed(leader, memory=memory)
    assert told(gone) == done
    assert make_plan(gone, SETTINGS).spark.reprocess is None  # not again, though its Job was cleaned up
    unseen = told(reprocessed(leader, job(REPROCESS, type="Complete"), memory=memory))
    assert unseen == done
    broken = driver(ended(message="ManifestError: batch 3 has no commit"), "p", f"uid-of-{REPROCESS}")
    bad = told(reprocessed(leader, job(REPROCESS, type="Failed", reason="BackoffLimitExceeded"), pods=(broken,)))
    assert bad.state == "Failed" and "batch 3 has no commit" in bad.message
