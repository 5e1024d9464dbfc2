"""A small AWS: moto for the table, S3, SNS and logs; SageMaker, Step Functions, quotas by hand.

``World.services(crash=k)`` gives services whose k-th call to AWS takes effect and then dies, or
(``lost=True``) dies before it: every way in which a handler can stop half way.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any

import boto3
import botocore.session
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sns.models import sns_backends

from everstep.contracts.env import ControlEnv, FailureFile
from everstep.contracts.exports import ExportManifest
from everstep.contracts.failures import Decision, DecisionKind
from everstep.contracts.manifest import CheckpointName, Manifest, ManifestEntry
from everstep.contracts.names import handler_folder
from everstep.contracts.payloads import (
    ContinueStep,
    FailedStep,
    GiveUpStep,
    Start,
    State,
    Step,
    Team,
    TokenStep,
)
from everstep.contracts.records import Launch, Run, job_name
from everstep.contracts.run_spec import RunSpec
from everstep.policy.quota import LONGEST_RUN, PER_JOB, TOTAL
from lambdas.aws import quotas
from lambdas.aws.services import Services

REGION = "us-east-1"
GROUP = "/aws/sagemaker/TrainingJobs"
RUN = "my-run"
START = float(int(time.time()))
"""Real, because CloudWatch refuses old lines; one, because worlds are compared."""
EXECUTION = f"arn:aws:states:us-east-1:123456789012:execution:everstep-dev-research:{RUN}"
TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::123456789012:role/everstep-job",
    data_uri="s3://bucket/data/research",
    checkpoint_uri="s3://bucket/ckpt/research",
    output_uri="s3://bucket/out/research",
    image_repository="1.dkr/everstep",
    subnets={"us-east-1a": ["subnet-a"], "us-east-1b": ["subnet-b"]},
    security_groups=["sg-a"],
    model_package_group="everstep-dev-research",
    adopt_job_roles=["arn:aws:iam::123456789012:role/notebook-jobs"],
)
(NOTEBOOK_ROLE,) = TEAM.adopt_job_roles
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:everstep-dev-research"
SPEC: dict[str, Any] = {
    "model": "tiny",
    "data": "stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "stop": {"steps": 100},
    "notify": {"on": ["done", "give_up", "wait", "retry", "budget"]},
    "watch": {"step": 900},
}
KINDS: dict[State, Any] = {
    State.VALIDATE_SPEC: Start,
    State.CLASSIFY: FailedStep,
    State.CONTINUE_AS_NEW: ContinueStep,
    State.GIVE_UP: GiveUpStep,
    State.WAIT_FOR_ROOM: TokenStep,
    State.LAUNCH_ATTEMPT: TokenStep,
    State.INSPECT_ATTEMPT: TokenStep,
    State.EXPORT_MODEL: TokenStep,
    State.VERIFY_EXPORT: FailedStep,
}
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}


class Crash(BaseException):
    """A Lambda function that ran out of time, or memory, or whose machine died."""


def refuse(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Call")


MISSING = refuse("ValidationException", "Requested resource not found.")


@cache
def _shape(operation: str) -> Any:
    model = botocore.session.get_session().get_service_model("sagemaker")
    return model.operation_model(operation).input_shape


class FakeSageMaker:
    """Jobs as DescribeTrainingJob shows them. A job ends when a test says so."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.jobs: dict[str, dict[str, Any]] = {}
        self.created: list[str] = []
        self.stops: list[str] = []
        self.pools_ended: list[str] = []
        self.refusals: list[ClientError] = []
        self.models: list[dict[str, Any]] = []
        self.model_refusals: list[ClientError] = []
        self.plans: dict[str, dict[str, Any]] = {}

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        report = ParamValidator().validate(request, _shape("CreateTrainingJob"))
        assert not report.has_errors(), report.generate_report()
        if self.refusals:
            raise self.refusals.pop(0)
        name = request["TrainingJobName"]
        if name in self.jobs:
            raise refuse("ResourceInUse", "Training job names must be unique within an AWS account")
        self.created.append(name)
        self.put(name, tags=request["Tags"], **request)
        return {"TrainingJobArn": self.jobs[name]["TrainingJobArn"]}

    def put(self, name: str, tags: list[dict[str, str]], **request: Any) -> None:
        self.jobs[name] = {
            "TrainingJobArn": f"arn:aws:sagemaker:{REGION}:123456789012:training-job/{name}",
            "TrainingJobName": name,
            "CreationTime": self.now(),
            "Tags": tags,
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Starting",
            "SecondaryStatusTransitions": [{"Status": "Starting", "StartTime": self.now()}],
            **{k: v for k, v in request.items() if k not in ("TrainingJobName", "Tags")},
            "ResourceConfig": request.get("ResourceConfig", {}),
        }

    def move(self, name: str, secondary: str) -> None:
        job = self.jobs[name]
        job["SecondaryStatus"] = secondary
        if secondary in ("Downloading", "Training"):
            job.setdefault("TrainingStartTime", self.now())
        job["SecondaryStatusTransitions"].append({"Status": secondary, "StartTime": self.now()})

    def end(self, name: str, status: str, secondary: str = "", reason: str = "") -> None:
        self.move(name, secondary or status)
        self.jobs[name].update(
            TrainingJobStatus=status,
            FailureReason=reason,
            TrainingEndTime=self.now(),
            BillableTimeInSeconds=3600,
        )

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:
        if TrainingJobName not in self.jobs:
            raise MISSING
        return dict(self.jobs[TrainingJobName])

    def describe_training_plan(self, TrainingPlanName: str) -> dict[str, Any]:
        if TrainingPlanName not in self.plans:
            raise refuse("ResourceNotFound", "no such plan")
        return self.plans[TrainingPlanName]

    def stop_training_job(self, TrainingJobName: str) -> None:
        if TrainingJobName not in self.jobs:
            raise MISSING
        job = self.jobs[TrainingJobName]
        if job["TrainingJobStatus"] != "InProgress":
            raise refuse(
                "ValidationException",
                "The request was rejected because the training job "
                f"is in status {job['TrainingJobStatus']}.",
            )
        self.stops.append(TrainingJobName)
        self.move(TrainingJobName, "Stopping")
        job["TrainingJobStatus"] = "Stopping"

    def update_training_job(self, TrainingJobName: str, **_: Any) -> None:
        if TrainingJobName in self.pools_ended or TrainingJobName not in self.jobs:
            raise refuse("ValidationException", "No warm pool")
        self.pools_ended.append(TrainingJobName)

    def get_paginator(self, name: str) -> "Pages":
        return Pages(getattr(self, f"_{name}"))

    def _list_tags(self, ResourceArn: str) -> dict[str, Any]:
        return {"Tags": self.jobs[ResourceArn.rpartition("/")[2]]["Tags"]}

    def create_model_package(self, **request: Any) -> dict[str, Any]:
        report = ParamValidator().validate(request, _shape("CreateModelPackage"))
        assert not report.has_errors(), report.generate_report()
        if self.model_refusals:
            raise self.model_refusals.pop(0)
        tokens = [m["ClientToken"] for m in self.models]
        if request["ClientToken"] not in tokens:
            self.models.append(request)
            tokens.append(request["ClientToken"])
        return {"ModelPackageArn": self.model_arn(tokens.index(request["ClientToken"]))}

    def model_arn(self, index: int) -> str:
        group = self.models[index]["ModelPackageGroupName"]
        return f"arn:aws:sagemaker:{REGION}:123456789012:model-package/{group}/{index + 1}"

    def _list_model_packages(self, **_: Any) -> dict[str, Any]:
        known = [{**m, "ModelPackageArn": self.model_arn(i)} for i, m in enumerate(self.models)]
        return {"ModelPackageSummaryList": known}

    def _list_training_jobs(self, WarmPoolStatusEquals: str) -> dict[str, Any]:
        kept = [
            {"TrainingJobName": j["TrainingJobName"]}
            for j in self.jobs.values()
            if j.get("WarmPoolStatus", {}).get("Status") == WarmPoolStatusEquals
        ]
        return {"TrainingJobSummaries": kept}

    def _search(self, Resource: str, SearchExpression: dict[str, Any]) -> dict[str, Any]:
        assert SearchExpression["Operator"] == "Or"
        found = [
            {"TrainingJob": job}
            for job in self.jobs.values()
            if any(
                job[f["Name"]] in f["Value"].split(",") and f["Operator"] == "In"
                for f in SearchExpression["Filters"]
            )
        ]
        return {"Results": found}


class Pages:
    """A paginator of one page."""

    def __init__(self, call: Callable[..., dict[str, Any]]) -> None:
        self._call = call

    def paginate(self, PaginationConfig: Any = None, **request: Any) -> list[dict[str, Any]]:
        return [self._call(**request)]


class FakeMachine:
    """Step Functions: which tokens are waited for, what they were answered, who is running."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.heartbeats: list[str] = []
        self.executions: dict[str, str] = {EXECUTION: "RUNNING"}
        self.inputs: dict[str, str] = {}
        self.started: dict[str, dict[str, Any]] = {}

    def token(self, name: str) -> str:
        self.waiting.add(name)
        return name

    def abandon(self) -> None:
        """The state moved on (a time-out, an abort): its tokens mean nothing any more."""
        self.waiting.clear()

    def _answer(self, token: str, answer: Any) -> None:
        if token not in self.waiting:
            raise refuse("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
        self.waiting.discard(token)
        self.answers[token] = answer

    def send_task_success(self, taskToken: str, output: str) -> None:
        self._answer(taskToken, json.loads(output))

    def send_task_failure(self, taskToken: str, error: str, cause: str) -> None:
        self._answer(taskToken, {"Error": error, "Cause": cause})

    def send_task_heartbeat(self, taskToken: str) -> None:
        if taskToken not in self.waiting:
            raise refuse("TaskTimedOut")
        self.heartbeats.append(taskToken)

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        arn = f"{stateMachineArn.replace(':stateMachine:', ':execution:')}:{name}"
        known = self.executions.get(arn)
        if known is not None and (known != "RUNNING" or self.inputs.get(arn) != input):
            raise refuse("ExecutionAlreadyExists", name)
        self.executions[arn], self.inputs[arn] = "RUNNING", input
        self.started[name] = {"machine": stateMachineArn, "input": json.loads(input)}
        return {"executionArn": arn}

    def describe_execution(self, executionArn: str) -> dict[str, Any]:
        if executionArn not in self.executions:
            raise refuse("ExecutionDoesNotExist")
        return {"status": self.executions[executionArn]}


class FakeMetrics:
    """GPU utilisation by host, the same for as long as it is asked for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.busy: dict[str, float] = {}
        self.calls = 0

    def get_paginator(self, name: str) -> "FakeMetrics":
        assert name == "get_metric_data"
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        self.calls += 1
        results = []
        for query in request["MetricDataQueries"]:
            (host,) = query["MetricStat"]["Metric"]["Dimensions"]
            times = []
            at = request["StartTime"]
            while host["Value"] in self.busy and at <= request["EndTime"]:
                times.append(at)
                at += timedelta(seconds=60)
            values = [self.busy[host["Value"]]] * len(times) if times else []
            results.append({"Id": query["Id"], "Timestamps": times, "Values": values})
        return [{"MetricDataResults": results}]


class FakeQuotas:
    def __init__(self) -> None:
        self.values = {
            LONGEST_RUN: 432_000.0,
            PER_JOB: 20.0,
            TOTAL["on_demand"]: 20.0,
            "ml.m5.large for training job usage": 4.0,
            "ml.m5.xlarge for training job usage": 4.0,
        }

        self.fixed: set[str] = set()
        """Not adjustable."""
        self.requests: list[dict[str, Any]] = []
        self.refusal: ClientError | None = None
        self.lists = self.looks = 0

    def get_paginator(self, name: str) -> Pages:
        return Pages(getattr(self, f"_{name}"))

    def _list_service_quotas(self, ServiceCode: str) -> dict[str, Any]:
        self.lists += 1
        rows = [
            {
                "QuotaName": name,
                "Value": value,
                "QuotaCode": self.code(name),
                "Adjustable": name not in self.fixed,
            }
            for name, value in self.values.items()
        ]
        return {"Quotas": rows}

    def _list_aws_default_service_quotas(self, ServiceCode: str) -> dict[str, Any]:
        return {"Quotas": []}

    def _list_requested_service_quota_change_history_by_quota(
        self, ServiceCode: str, QuotaCode: str
    ) -> dict[str, Any]:
        return {"RequestedQuotas": [r for r in self.requests if r["QuotaCode"] == QuotaCode]}

    def code(self, name: str) -> str:
        return f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"

    def request_service_quota_increase(
        self, ServiceCode: str, QuotaCode: str, DesiredValue: float
    ) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        if any(r["QuotaCode"] == QuotaCode and r["Status"] == "PENDING" for r in self.requests):
            raise refuse("ResourceAlreadyExistsException", "Only one open request is allowed")
        made = {
            "Id": f"request-{len(self.requests) + 1}",
            "QuotaCode": QuotaCode,
            "QuotaName": next(n for n in self.values if self.code(n) == QuotaCode),
            "DesiredValue": DesiredValue,
            "Status": "PENDING",
            "Created": len(self.requests),
        }
        self.requests.append(made)
        return {"RequestedQuota": made}

    def approve(self, number: int = 0) -> None:
        """As AWS does it: status and value."""
        request = self.requests[number]
        request["Status"] = "APPROVED"
        self.values[request["QuotaName"]] = request["DesiredValue"]

    def get_requested_service_quota_change(self, RequestId: str) -> dict[str, Any]:
        self.looks += 1
        return {"RequestedQuota": next(r for r in self.requests if r["Id"] == RequestId)}


class FakeCodeBuild:
    """Builds of one project, as BatchGetBuilds shows them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.builds: list[dict[str, Any]] = []
        self.missing = False
        """The project is."""

    def put(self, tag: str, status: str = "IN_PROGRESS") -> dict[str, Any]:
        number = len(self.builds)
        build = {
            "id": f"everstep-trainer:{number}",
            "startTime": datetime.fromtimestamp(self.clock() + number, UTC),
            "buildStatus": status,
            "logs": {"deepLink": f"https://logs/{number}"},
            "environment": {"environmentVariables": [{"name": "TAG", "value": tag}]},
        }
        self.builds.append(build)
        return build

    def list_builds_for_project(self, projectName: str, sortOrder: str) -> dict[str, Any]:
        assert (projectName, sortOrder) == ("everstep-trainer", "DESCENDING")
        if self.missing:
            raise refuse("ResourceNotFoundException")
        return {"ids": [build["id"] for build in reversed(self.builds)]}

    def batch_get_builds(self, ids: list[str]) -> dict[str, Any]:
        assert ids, "CodeBuild refuses an empty list"
        return {"builds": [build for build in self.builds if build["id"] in ids]}


class FakeFsx:
    """Data repository tasks and file systems; a test says how each ends."""

    def __init__(self) -> None:
        self.systems: dict[str, dict[str, Any]] = {}
        self.links: dict[str, dict[str, Any]] = {}
        """By token too."""
        self.deleted: list[str] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        """By token: the same token is the same task."""
        self.refusals: list[ClientError] = []

    def _take(self, operation: str, request: dict[str, Any]) -> None:
        model = botocore.session.get_session().get_service_model("fsx")
        report = ParamValidator().validate(request, model.operation_model(operation).input_shape)
        assert not report.has_errors(), report.generate_report()
        assert len(request["ClientRequestToken"]) <= 63
        if self.refusals:
            raise self.refusals.pop(0)

    def create_file_system(self, **request: Any) -> dict[str, Any]:
        self._take("CreateFileSystem", request)
        made = {
            **request,
            "FileSystemId": f"fs-{len(self.systems):017d}",
            "Lifecycle": "CREATING",
            "LustreConfiguration": {"MountName": "abcdefgh"},
        }
        return {"FileSystem": self.systems.setdefault(request["ClientRequestToken"], made)}

    def _here(self) -> list[dict[str, Any]]:
        return [s for s in self.systems.values() if s["FileSystemId"] not in self.deleted]

    def describe_file_systems(self, FileSystemIds: list[str] | None = None) -> dict[str, Any]:
        found = [s for s in self._here() if FileSystemIds in (None, [s["FileSystemId"]])]
        if FileSystemIds and not found:
            raise refuse("FileSystemNotFound")
        return {"FileSystems": found}

    def delete_file_system(self, FileSystemId: str) -> None:
        if FileSystemId not in [s["FileSystemId"] for s in self._here()]:
            raise refuse("FileSystemNotFound")
        self.deleted.append(FileSystemId)

    def get_paginator(self, name: str) -> Pages:
        return Pages(getattr(self, name))

    def create_data_repository_association(self, **request: Any) -> dict[str, Any]:
        self._take("CreateDataRepositoryAssociation", request)
        made = {**request, "AssociationId": f"dra-{len(self.links):017d}", "Lifecycle": "CREATING"}
        return {"Association": self.links.setdefault(request["ClientRequestToken"], made)}

    def describe_data_repository_associations(self, AssociationIds: list[str]) -> dict[str, Any]:
        return {
            "Associations": [x for x in self.links.values() if x["AssociationId"] in AssociationIds]
        }

    def create_data_repository_task(self, **request: Any) -> dict[str, Any]:
        self._take("CreateDataRepositoryTask", request)
        task = {**request, "TaskId": f"task-{len(self.tasks):017d}", "Lifecycle": "PENDING"}
        return {"DataRepositoryTask": self.tasks.setdefault(request["ClientRequestToken"], task)}

    def describe_data_repository_tasks(self, TaskIds: list[str]) -> dict[str, Any]:
        return {"DataRepositoryTasks": [t for t in self.tasks.values() if t["TaskId"] in TaskIds]}

    def end(self, lifecycle: str, **more: Any) -> dict[str, Any]:
        """The newest task."""
        task = [*self.tasks.values()][-1]
        task.update(Lifecycle=lifecycle, **more)
        return task


class _Counted:
    """A client whose calls are counted; at the chosen one the process dies."""

    def __init__(
        self, client: Any, tick: Callable[[str, Callable[[], Any]], Any], lists: str = ""
    ) -> None:
        self._client, self._tick, self._lists = client, tick, lists

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._client, name)
        if name == "get_paginator":
            return lambda kind: _Counted(member(kind), self._tick, kind)

        def call(**request: Any) -> Any:
            answer = self._tick(self._lists or name, lambda: member(**request))
            return list(answer) if name == "paginate" else answer

        return call


@cache
def _client(name: str) -> Any:
    return boto3.client(name, **CREDENTIALS)


class World:
    def __init__(self) -> None:
        self.now = START
        self.sagemaker, self.machine = FakeSageMaker(lambda: self.now), FakeMachine()
        self.quotas = FakeQuotas()
        self.metrics = FakeMetrics(lambda: self.now)
        self.codebuild = FakeCodeBuild(lambda: self.now)
        self.fsx = FakeFsx()
        self.draw = 0.5
        self.env = ControlEnv(
            table="runs",
            topic_arn=f"arn:aws:sns:{REGION}:123456789012:topic",
            heartbeat_seconds=10,
            looks_at_once=1,  # a crash is asked for by the number of a call
            prices_usd={"ml.m5.large": 0.1},
            adopters={NOTEBOOK_ROLE: MACHINE},
        )
        self.calls = 0
        self.made: list[str] = []
        """The name of each call that a handler made, a list's as one."""
        self._streams: set[str] = set()
        _client("dynamodb").create_table(
            TableName="runs",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "run_id", "KeyType": "HASH"},
                {"AttributeName": "item", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": n, "AttributeType": "S"} for n in ("run_id", "item", "active")
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "active",
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                    "KeySchema": [
                        {"AttributeName": "active", "KeyType": "HASH"},
                        {"AttributeName": "run_id", "KeyType": "RANGE"},
                    ],
                }
            ],
        )
        _client("s3").create_bucket(Bucket="bucket")
        _client("sns").create_topic(Name="topic")
        _client("logs").create_log_group(logGroupName=GROUP)
        _client("ecr").create_repository(repositoryName="everstep/trainer")
        self.push("stable")
        quotas._cache.clear()

    # --- what handlers are given

    def services(
        self,
        crash: int = 0,
        *,
        lost: bool = False,
        meanwhile: tuple[int, Callable[[], Any]] | None = None,
    ) -> Services:
        """``meanwhile``: before the numbered call someone else runs from beginning to end."""
        calls = 0

        def tick(name: str, call: Callable[[], Any]) -> Any:
            nonlocal calls
            calls += 1
            self.made.append(name)
            self.calls = calls
            if calls == crash and lost:
                raise Crash
            dies = calls == crash
            if meanwhile is not None and calls == meanwhile[0]:
                meanwhile[1]()
                self.calls = calls
            try:
                answer = call()
            except ClientError:
                if dies:
                    raise Crash from None
                raise
            if dies:
                raise Crash
            return answer

        own = {
            "sagemaker": self.sagemaker,
            "stepfunctions": self.machine,
            "service-quotas": self.quotas,
            "cloudwatch": self.metrics,
            "codebuild": self.codebuild,
            "fsx": self.fsx,
        }
        return Services(
            self.env,
            lambda name: _Counted(own.get(name) or _client(name), tick),
            clock=lambda: self.now,
            draw=lambda: self.draw,
        )

    def act(self, state: State, payload: dict[str, Any], services: Services | None = None) -> Any:
        """Run a state's handler on a payload."""
        module = import_module(f"lambdas.{handler_folder(state)}.handler")
        return module.act(
            KINDS.get(state, Step).model_validate(payload), services or self.services()
        )

    def watch(self, services: Services | None = None) -> dict[str, int]:
        from lambdas.watchdog.handler import act

        return act(services or self.services())

    # --- what there is

    @property
    def store(self) -> Any:
        return self.services().store

    def run(self) -> Run:
        return self.store.run(RUN)

    def launch(self, number: int = 1) -> Launch:
        return self.store.launch(RUN, number)

    def active(self) -> list[tuple[str, str]]:
        kinds = ("launch", "increase", "waiting")
        return [row for kind in kinds for row in self.store.active(kind)]

    def messages(self) -> list[str]:
        topic = sns_backends[DEFAULT_ACCOUNT_ID][REGION].topics[self.env.topic_arn]
        return [sent[1] for sent in topic.sent_notifications]

    def snapshot(self) -> dict[str, Any]:
        """The end state that a half-run and a second run must share with an unbroken one."""
        rows = _client("dynamodb").scan(TableName="runs")["Items"]
        return {
            # A second look sees later phases (the stop that the first asked for): no difference.
            "rows": [
                {k: v for k, v in row.items() if not k.startswith("phase")}
                for row in sorted(rows, key=lambda r: r["item"]["S"])
            ],
            "created": self.sagemaker.created,
            "executions": self.machine.executions,
            "jobs": {n: j["TrainingJobStatus"] for n, j in self.sagemaker.jobs.items()},
            "models": self.sagemaker.models,
            "answers": self.machine.answers,
            "messages": sorted(set(self.messages())),
            "increases": self.quotas.requests,
            "started": self.machine.started,
        }

    # --- how a test gets there

    def put_run(self, **changes: Any) -> Run:
        spec = changes.pop("spec", {})
        run = Run(
            run_id=RUN,
            execution_arn=EXECUTION,
            team=TEAM,
            spec=RunSpec.model_validate({**SPEC, **spec}),
            created_epoch=self.now,
            **changes,
        )
        assert self.store.put_new(run)
        return run

    def put_launch(self, number: int = 1, **changes: Any) -> Launch:
        launch = Launch(
            **{
                "run_id": RUN,
                "launch": number,
                "job_name": job_name(RUN, number),
                "execution_arn": EXECUTION,
                "instance_type": "ml.m5.large",
                "nodes": 1,
                "planned_epoch": self.now,
                "subnet": "subnet-a",
                **changes,
            }
        )
        assert self.store.put_new(launch)
        if launch.outcome is not None:
            self.store.update(launch, active=False)
        return launch

    def put_job(self, number: int = 1, token: str = "T1") -> str:
        """A launch whose job runs, and whose token is waited for."""
        self.put_launch(number, task_token=self.machine.token(token), created=True)
        name = job_name(RUN, number)
        self.sagemaker.put(name, tags=[{"Key": "everstep:execution", "Value": EXECUTION}])
        return name

    def put_foreign(
        self, name: str = "notebook", status: str = "Failed", reason: str = "", **changes: Any
    ) -> str:
        """A job that someone made without us, tagged to be taken over, and how it ended."""
        tags = changes.pop("tags", {"everstep:auto-retry": "true", "owner": "me"})
        request = {
            "RoleArn": NOTEBOOK_ROLE,
            "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://elsewhere/out"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": 1,
                "VolumeSizeInGB": 30,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
            "CheckpointConfig": {"S3Uri": f"{TEAM.checkpoint_uri}/theirs"},
            "Environment": {"MODE": "a", "WANDB_API_KEY": "0123456789"},
            **changes,
        }
        self.sagemaker.put(name, [{"Key": k, "Value": v} for k, v in tags.items()], **request)
        self.sagemaker.end(name, status, reason=reason or "InternalServerError: We lost it.")
        return str(self.sagemaker.jobs[name]["TrainingJobArn"])

    def decided(self, kind: DecisionKind, **more: Any) -> Decision:
        return Decision(kind=kind, reason="r", **more)

    def put_object(self, uri: str, body: str) -> None:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        _client("s3").put_object(Bucket=bucket, Key=key, Body=body.encode())

    def push(self, tag: str, content: str = "", repository: str = "everstep/trainer") -> str:
        """The digest of a new image, which the tag points at from now on."""
        manifest = json.dumps({"schemaVersion": 2, "config": content or tag})
        made = _client("ecr").put_image(
            repositoryName=repository,
            imageManifest=manifest,
            imageDigest=f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}",
            imageManifestMediaType="application/vnd.oci.image.manifest.v1+json",
            imageTag=tag,
        )
        return str(made["image"]["imageId"]["imageDigest"])

    def put_dataset(self, vocabulary: int = 1000) -> None:
        index = json.dumps({"vocab_size": vocabulary})
        self.put_object(f"{TEAM.data_uri}/stdlib/index.json", index)

    def put_checkpoint(
        self,
        step: int,
        launch: int = 1,
        *,
        final: bool = False,
        recorded: bool = False,
        run: str = RUN,
    ) -> str:
        """``recorded``: the files are on a file system, and only the manifest's copy is here."""
        name = CheckpointName(step=step, launch=launch)
        folder = f"{TEAM.checkpoint_uri}/{run}/{name}"
        if not recorded:
            self.put_object(f"{folder}/x.distcp", "12345")
        self.put_object(
            f"{folder}/manifest.json",
            Manifest(
                step=step,
                launch=launch,
                world_size=1,
                tokens=step,
                final=final,
                entries=[ManifestEntry(path="x.distcp", size=5, sha256="0")],
            ).model_dump_json(),
        )
        return str(name)

    def put_export(self, checkpoint: str, *, dtype: str = "bf16") -> str:
        """A whole export of a checkpoint; its URI."""
        uri = f"{TEAM.output_uri}/{RUN}/export/{checkpoint}"
        name = CheckpointName.parse(checkpoint)
        assert name is not None
        self.put_object(f"{uri}/model.safetensors", "12345")
        self.put_object(
            f"{uri}/export.json",
            ExportManifest(
                checkpoint=checkpoint,
                step=name.step,
                tokens=1000,
                dtype=dtype,
                parameters=5,
                entries=[ManifestEntry(path="model.safetensors", size=5, sha256="0")],
            ).model_dump_json(),
        )
        return uri

    def put_failure_file(self, number: int, **fields: Any) -> None:
        file = FailureFile(**{"kind": "ValueError", "message": "bad", **fields})
        self.put_object(
            f"{TEAM.output_uri}/{RUN}/{number:05d}/failure.json", file.model_dump_json()
        )

    def log(self, job: str, *lines: str, host: str = "algo-1-1") -> None:
        stream = f"{job}/{host}"
        if stream not in self._streams:
            self._streams.add(stream)
            _client("logs").create_log_stream(logGroupName=GROUP, logStreamName=stream)
        _client("logs").put_log_events(
            logGroupName=GROUP,
            logStreamName=stream,
            logEvents=[{"timestamp": int(self.now * 1000), "message": x} for x in lines],
        )

    def payload(self, **changes: Any) -> dict[str, Any]:
        return (
            Step(run_id=RUN, execution_arn=EXECUTION, heartbeat_seconds=10).model_dump(mode="json")
            | changes
        )


@contextmanager
def a_world() -> Iterator[World]:
    with mock_aws():
        yield World()
