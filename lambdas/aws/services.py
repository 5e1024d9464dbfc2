"""What a handler is given: environment, clock, and the services. Built once a process."""

import os
import random
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import boto3
from aws_lambda_powertools import Logger
from botocore.config import Config
from pydantic import BaseModel

from everstep.contracts.env import ControlEnv
from lambdas.aws.checkpoints import Checkpoints
from lambdas.aws.figures import Figures
from lambdas.aws.fsx import DataTasks, FileSystems
from lambdas.aws.increases import Increases
from lambdas.aws.jobs import Jobs
from lambdas.aws.logs import JobLogs
from lambdas.aws.machine import Machine
from lambdas.aws.metrics import Metrics
from lambdas.aws.models import Models
from lambdas.aws.notify import Notifier
from lambdas.aws.plans import Plans
from lambdas.aws.quotas import Quotas
from lambdas.aws.registry import Registry
from lambdas.aws.store import Store

logger = Logger(service="everstep")

# Adaptive: a throttled control plane slows down instead of failing a run.
_CONFIG = Config(
    retries={"mode": "adaptive", "max_attempts": 6},
    connect_timeout=5,
    read_timeout=20,
    max_pool_connections=32,  # as many as ControlEnv.looks_at_once may ask for
)


class Services:
    """Clients are made when first asked for: most handlers need two of them."""

    def __init__(
        self,
        env: ControlEnv,
        client: Callable[[str], Any],
        clock: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.env, self.client, self.clock, self.draw = env, client, clock, draw

    @cached_property
    def store(self) -> Store:
        return Store(self.client("dynamodb"), self.env.table)

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.client("stepfunctions"))

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.client("sagemaker"), self.store, self.machine, self.clock)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.client("s3"))

    @cached_property
    def data_tasks(self) -> DataTasks:
        return DataTasks(self.client("fsx"))

    @cached_property
    def file_systems(self) -> FileSystems:
        return FileSystems(self.client("fsx"))

    @cached_property
    def models(self) -> Models:
        return Models(self.client("sagemaker"))

    @cached_property
    def plans(self) -> Plans:
        return Plans(self.client("sagemaker"))

    @cached_property
    def logs(self) -> JobLogs:
        return JobLogs(self.client("logs"))

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(self.client("cloudwatch"))

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.client("ecr"), self.client("codebuild"))

    @cached_property
    def quotas(self) -> Quotas:
        return Quotas(self.client("service-quotas"), self.client("sagemaker"))

    @cached_property
    def increases(self) -> Increases:
        return Increases(
            self.client("service-quotas"),
            self.client("dynamodb"),
            self.env.table,
            self.quotas,
            self.clock,
        )

    @cached_property
    def figures(self) -> Figures:
        return Figures(self.env.metrics_namespace)

    @cached_property
    def notifier(self) -> Notifier:
        return Notifier(self.client("sns"), self.env, self.clock)

    def ready(self) -> None:
        """Make all that a pass of the watchdog may need, before it is shared among threads."""
        _ = (self.store, self.machine, self.jobs, self.logs, self.metrics, self.quotas)
        _ = (self.increases, self.notifier, self.registry, self.file_systems, self.figures)


_services: Services | None = None


def services() -> Services:
    """The process's own: environment parsed once, clients kept between invocations."""
    global _services
    if _services is None:
        session = boto3.session.Session()
        _services = Services(
            ControlEnv.parse(os.environ),
            lambda name: session.client(name, config=_CONFIG),  # type: ignore[call-overload]
        )
    return _services


Payload = TypeVar("Payload", bound=BaseModel)
Handler = Callable[[dict[str, Any], Any], Any]


def state_handler(kind: type[Payload], act: Callable[[Payload, Services], Any]) -> Handler:
    """A Lambda handler: parse the event into ``kind``, then act."""

    def handler(event: dict[str, Any], context: Any) -> Any:
        payload = kind.model_validate(event)
        names = ("run_id", "execution_name", "launch")
        logger.append_keys(**{n: getattr(payload, n) for n in names if hasattr(payload, n)})
        result = act(payload, services())
        logger.info("handled", extra={"payload": kind.__name__, "next": _next(result)})
        return result

    return handler


def _next(result: Any) -> Any:
    return result.get("next") if isinstance(result, dict) else None
