"""What must hold after any run, whatever was done to it. Each check says in words what is wrong."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.events import TAG_RUN, TERMINAL_JOB_STATUSES
from everstep.contracts.exports import EXPORT_MANIFEST, ExportManifest
from everstep.contracts.failures import FailureClass
from everstep.contracts.records import Launch, Run, job_name
from everstep.policy.cost import spend_of
from everstep.policy.job_request import report_uri
from everstep.policy.retry import TABLE
from tests.chaos.driver import Story, Watch
from tests.scenarios.lab import Lab

SETTLE_SECONDS = 40.0
"""For the watchdog's next looks: a stopped execution's job ends after it."""
EVENTS_PER_LAUNCH, EVENTS_BASE = 120, 200
EVENTS_LIMIT = 25_000
HARM = ("kill_host", "kill_process", "freeze", "interrupt_spot", "corrupt_newest")
"""Faults that may cost an attempt."""
ENDED = ("done", "gave_up", "stopped")
PRICE = {"ml.m5.large": 0.115}


def expected_state(steps: int) -> str:
    """The hash chain of an unbroken run of the foreign trainers."""
    state = "start"
    for step in range(1, steps + 1):
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
    return state


def violations(lab: Lab, watch: Watch, story: Story, torch_weights: str) -> list[str]:
    """Empty where all is well."""
    found = list(_ended(lab, story))
    if found:
        return found  # what follows reads an end
    run_id = story.plan.run_id
    run, launches = lab.cloud.run(run_id), lab.launches(run_id)
    for part in (
        _attempts(run, launches),
        _jobs(lab, launches, run_id),
        _cost(lab, launches),
        _history(lab, story, launches),
        _justified(run, launches, story),
        _weights(lab, story, run, torch_weights),
        _finished(lab, run, story),
        _file_systems(lab, run),
        _reports(lab, watch),
        _page(lab, run),
    ):
        found += part
    lab.control.forget(run_id)
    if run_id in watch.doubled:
        found.append("two jobs of the run were there at the same time")
    return found


def _ended(lab: Lab, story: Story) -> Iterator[str]:
    run_id = story.plan.run_id
    if story.status == "RUNNING":
        yield f"no end after {story.seconds} s"
        return
    settled = lambda: (  # noqa: E731
        lab.status_of(run_id) in ENDED and not _alive(lab, run_id) and not _active(lab, run_id)
    )
    try:
        lab.until(settled, "settled", SETTLE_SECONDS)
    except AssertionError:
        status, alive = lab.status_of(run_id), _alive(lab, run_id)
        yield f"not settled: row {status}, alive {alive}, watched {_active(lab, run_id)}"
    row, status = lab.status_of(run_id), story.status
    if (row == "done") != (status == "SUCCEEDED"):
        yield f"the row says {row}, the execution {status}"


def _alive(lab: Lab, run_id: str) -> list[str]:
    """Jobs and processes of the run that have not ended."""
    names = [p["name"] for p in lab.control.processes() if f"{run_id}-" in p["name"]]
    return names + [j["name"] for j in lab.control.jobs() if j["name"].startswith(f"{run_id}-")]


def _active(lab: Lab, run_id: str) -> list[str]:
    """Rows of the run that the watchdog would look at for ever."""
    rows: list[str] = []
    for kind in ("launch", "waiting"):
        pages = (
            lab.cloud.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=lab.cloud.outputs["TableName"],
                IndexName="active",
                KeyConditionExpression="active = :a AND run_id = :r",
                ExpressionAttributeValues={":a": {"S": kind}, ":r": {"S": run_id}},
            )
        )
        rows += [item["item"]["S"] for page in pages for item in page["Items"]]
    return rows


def _attempts(run: Run, launches: list[Launch]) -> Iterator[str]:
    counted = [x for x in launches if x.launch > run.attempts_reset_at_launch]
    spent = sum(x.spent_attempt for x in counted)
    if spent > run.spec.retry.max_attempts:
        yield f"{spent} attempts of {run.spec.retry.max_attempts}"
    numbers = [x.launch for x in launches]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"launch numbers have a gap: {numbers}"


def _jobs(lab: Lab, launches: list[Launch], run_id: str) -> Iterator[str]:
    made = sorted(x.job_name for x in launches if x.created)
    there = lab.jobs_of(run_id)
    if made != there:
        yield f"jobs in the table {made}, in SageMaker {there}"
    ended = 0.0
    for name in there:
        job = _describe(lab, name)
        if job["TrainingJobStatus"] not in TERMINAL_JOB_STATUSES:
            yield f"orphan: {name} is {job['TrainingJobStatus']}"
        if job["CreationTime"].timestamp() < ended:
            yield f"{name} was made before its former had ended"
        ended = job["TrainingEndTime"].timestamp()


def _cost(lab: Lab, launches: list[Launch]) -> Iterator[str]:
    """What SageMaker bills is in the rows, second for second."""
    billed = 0
    for launch in launches:
        if not launch.created:
            continue
        seconds = _describe(lab, launch.job_name).get("BillableTimeInSeconds", 0)
        billed += seconds * launch.nodes
        written = launch.outcome.billable_seconds if launch.outcome else None
        if written != seconds:
            yield f"{launch.job_name} cost {seconds} s, its row says {written}"
    spend = spend_of(launches, PRICE)
    if spend.usd is not None and abs(spend.usd - billed / 3600 * 0.115) > 1e-6:
        yield f"spend says {spend.usd} USD for {billed} instance-seconds"


def _describe(lab: Lab, name: str) -> dict[str, Any]:
    return dict(lab.cloud.client("sagemaker").describe_training_job(TrainingJobName=name))


def _history(lab: Lab, story: Story, launches: list[Launch]) -> Iterator[str]:
    """One after another, each within its share; the run is in the last one."""
    there = lab.executions_of(story.plan.run_id)
    told = [arn.rpartition(":")[2] for arn in story.arns]
    if sorted(there) != sorted(told):
        yield f"executions {sorted(there)}, and one led to another so: {told}"
    for arn in story.arns:
        name = arn.rpartition(":")[2]
        status = there[name]["status"] if name in there else "missing"
        if arn != story.arn and status != "SUCCEEDED":
            yield f"{name} handed the run over and is {status}"
        own = sum(x.execution_arn == arn for x in launches)
        pages = lab.cloud.client("stepfunctions").get_paginator("get_execution_history")
        count = sum(len(p["events"]) for p in pages.paginate(executionArn=arn))
        budget = min(EVENTS_BASE + EVENTS_PER_LAUNCH * own, EVENTS_LIMIT)
        if count > budget:
            yield f"{count} history events of {name} for {own} launches"


def _justified(run: Run, launches: list[Launch], story: Story) -> Iterator[str]:
    """A run that did not arrive was given enough reason to."""
    if run.status == "done":
        return
    if not launches or launches[-1].failure is None or launches[-1].decision is None:
        yield f"{run.status} without a class and a decision: {run.note}"
        return
    failure = launches[-1].failure
    harm = sum(kind in HARM for kind in story.kinds)
    row, retry = TABLE[failure.failure_class], run.spec.retry
    reasons: dict[FailureClass, Callable[[], bool]] = {
        # A process that was killed leaves no word, and the attempt had saved nothing yet.
        FailureClass.UNKNOWN: lambda: "kill_process" in story.kinds,
        FailureClass.USER_CODE: lambda: story.kinds.count("kill_process") >= 2,
        FailureClass.OUT_OF_MEMORY_HOST: lambda: "kill_process" in story.kinds,
    }
    enough = harm >= retry.no_progress_limit * row.patience
    if not (enough or reasons.get(failure.failure_class, lambda: False)()):
        yield (
            f"{run.status}, {failure.failure_class} ({failure.cause}): "
            f"{launches[-1].decision.reason}; faults {story.done} do not justify it"
        )


def _weights(lab: Lab, story: Story, run: Run, torch_weights: str) -> Iterator[str]:
    if run.status != "done":
        return
    if story.plan.trainer == "torch":
        if lab.weights(run.run_id) != torch_weights:
            yield "other weights than the unbroken run"
        return
    state = lab.object(f"{lab.final_checkpoint(run.run_id)}/state.txt")
    if state != expected_state(story.plan.steps):
        yield "another state than the unbroken run"


def _finished(lab: Lab, run: Run, story: Story) -> Iterator[str]:
    """Exported whole and registered once; no job of it lost, doubled or free of charge."""
    if run.status != "done" or not run.spec.finish.export:
        return
    rows = [row for row in lab.cloud.exports(run.run_id) if row.created]
    ended = 0.0
    for row in rows:
        job = _describe(lab, row.job_name)
        cost = job.get("BillableTimeInSeconds", 0)
        if row.outcome is None or row.outcome.billable_seconds != cost:
            yield f"{row.job_name} cost {cost} s, its row says {row.outcome}"
        if job["CreationTime"].timestamp() < ended:
            yield f"{row.job_name} was made before its former had ended"
        ended = job["TrainingEndTime"].timestamp()
    names = [row.job_name for row in rows]
    there = _jobs_named(lab, f"{run.run_id}-export-")
    if there != names:
        yield f"export jobs in the table {names}, in SageMaker {there}"
    done = ExportManifest.model_validate_json(lab.object(f"{run.export_uri}/{EXPORT_MANIFEST}"))
    final = lab.final_checkpoint(run.run_id)
    if f"/{done.checkpoint}" not in final:
        yield f"exported {done.checkpoint}, the final checkpoint is {final}"
    if story.plan.trainer != "torch":
        state = lab.object(f"{run.export_uri}/state.txt")
        if state != expected_state(story.plan.steps):
            yield "another state was exported than that of the unbroken run"
    versions = _versions(lab, run)
    if versions != [run.model_package_arn]:
        yield f"versions {versions}, the row says {run.model_package_arn}"


def _file_systems(lab: Lab, run: Run) -> Iterator[str]:
    """None of the run's own is left, whatever the end was."""

    def left() -> list[str]:
        tag = {"Key": TAG_RUN, "Value": run.run_id}
        found = lab.cloud.client("fsx").describe_file_systems()["FileSystems"]
        return [one["FileSystemId"] for one in found if tag in one["Tags"]]

    try:
        lab.until(lambda: not left(), "no file system", SETTLE_SECONDS)
    except AssertionError:
        yield f"orphan: file systems {left()}"
    own = lab.cloud.run(run.run_id).own_lustre
    if own is not None and own.here:
        yield f"the row says that {own.file_system_id} is paid for"


def _jobs_named(lab: Lab, prefix: str) -> list[str]:
    pages = lab.cloud.client("sagemaker").get_paginator("list_training_jobs")
    jobs = [j for p in pages.paginate(NameContains=prefix) for j in p["TrainingJobSummaries"]]
    return sorted(name for j in jobs if (name := j["TrainingJobName"]).startswith(prefix))


def _versions(lab: Lab, run: Run) -> list[str]:
    """Versions of the team's model package group that say they are this run's."""
    sagemaker = lab.cloud.client("sagemaker")
    pages = sagemaker.get_paginator("list_model_packages").paginate(
        ModelPackageGroupName=run.team.model_package_group, ModelPackageType="Versioned"
    )
    arns = [m["ModelPackageArn"] for page in pages for m in page["ModelPackageSummaryList"]]
    return [
        arn
        for arn in arns
        if sagemaker.describe_model_package(ModelPackageName=arn)["CustomerMetadataProperties"][
            "everstep:run"
        ]
        == run.run_id
    ]


def _reports(lab: Lab, watch: Watch) -> Iterator[str]:
    """A report that crashed was made again."""
    if not watch.reports:
        return

    def made() -> bool:
        rows = [row for name, row in lab.control.functions().items() if "QuotaReport" in name]
        return sum(row["invocations"] - row["errors"] for row in rows) >= watch.reports

    try:
        lab.until(made, "every report", SETTLE_SECONDS)
    except AssertionError:
        yield f"fewer daily reports were made than the {watch.reports} that were due"


def _page(lab: Lab, run: Run) -> Iterator[str]:
    """Whatever the end, there is a report of it, and it says the same."""
    uri = report_uri(run)
    says = {"done": "arrived", "gave_up": "gave up", "stopped": "stopped"}[run.status]

    def written() -> bool:
        try:
            return f">{says}</span>" in lab.object(uri)
        except ClientError:
            return False  # not yet

    try:
        lab.until(written, "the report", SETTLE_SECONDS)
    except AssertionError:
        yield f"no report at {uri} says {says!r}"


def outcome(lab: Lab, story: Story) -> dict[str, Any]:
    """The row of the report."""
    run_id = story.plan.run_id
    status = lab.status_of(run_id)
    launches = lab.launches(run_id)
    last = launches[-1].failure if launches else None
    return {
        "seed": story.plan.seed,
        "trainer": story.plan.trainer,
        "faults": story.done,
        "missed": story.missed,
        "outcome": status,
        "class": last.failure_class if last and status != "done" else None,
        "classes": [str(x.failure.failure_class) for x in launches if x.failure],
        "launches": len(launches),
        "attempts": sum(x.spent_attempt for x in launches),
        "jobs": [job_name(run_id, x.launch) for x in launches if x.created],
        "seconds": story.seconds,
    }
