"""What starts a handler that is no state: queued events, and the clocks."""

from collections.abc import Iterable, Sequence

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from everstep.contracts.events import (
    ENDED_EXECUTION_STATUSES,
    EXECUTION_EVENT,
    JOB_EVENT,
    TERMINAL_JOB_STATUSES,
    UNHAPPY_EXECUTION_STATUSES,
)

RECEIVES = 5
"""Deliveries before an event goes to the dead-letter queue. The watchdog finds what is lost."""
VISIBILITY = Duration.minutes(3)
"""Six times the handler's time-out, as Lambda asks."""
SLOW_VISIBILITY = Duration.minutes(30)

JOB_ENDED = events.EventPattern(
    source=["aws.sagemaker"],
    detail_type=[JOB_EVENT],
    detail={"TrainingJobStatus": sorted(TERMINAL_JOB_STATUSES)},
)


def execution_ended(
    machine_arns: Sequence[str], statuses: Iterable[str] = UNHAPPY_EXECUTION_STATUSES
) -> events.EventPattern:
    return events.EventPattern(
        source=["aws.states"],
        detail_type=[EXECUTION_EVENT],
        detail={
            "status": sorted(statuses),
            "stateMachineArn": list(machine_arns),
        },
    )


def run_over(machine_arns: Sequence[str]) -> events.EventPattern:
    """However it ended."""
    return execution_ended(machine_arns, ENDED_EXECUTION_STATUSES)


class QueuedEvents(Construct):
    """Rule → queue → handler's alias, with a dead-letter queue behind both steps."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        pattern: events.EventPattern,
        alias: lambda_.IAlias,
        key: kms.IKey,
        slow: bool = False,
    ) -> None:
        """``slow``: the handler takes minutes, and so one event at a time."""
        super().__init__(scope, name)
        self.dead = self._queue("DeadLetters", key, retention_period=Duration.days(14))
        self.queue = self._queue(
            "Queue",
            key,
            visibility_timeout=SLOW_VISIBILITY if slow else VISIBILITY,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead, max_receive_count=RECEIVES),
        )
        events.Rule(
            self,
            "Rule",
            event_pattern=pattern,
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.dead)],
        )
        alias.add_event_source(
            sources.SqsEventSource(
                self.queue, batch_size=1 if slow else 10, report_batch_item_failures=True
            )
        )

    def _queue(self, name: str, key: kms.IKey, **more: object) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            data_key_reuse=Duration.hours(1),
            enforce_ssl=True,
            **more,  # type: ignore[arg-type]
        )


class Daily(Construct):
    """A report: a missed one is sent late rather than not."""

    def __init__(
        self, scope: Construct, name: str, *, description: str, alias: lambda_.IAlias
    ) -> None:
        super().__init__(scope, name)
        events.Rule(
            self,
            "Rule",
            description=description,
            schedule=events.Schedule.rate(Duration.days(1)),
            targets=[targets.LambdaFunction(alias, retry_attempts=2)],
        )


class WatchdogClock(Construct):
    def __init__(self, scope: Construct, name: str, *, minutes: int, alias: lambda_.IAlias) -> None:
        super().__init__(scope, name)
        events.Rule(
            self,
            "Rule",
            description="Everstep watchdog",
            schedule=events.Schedule.rate(Duration.minutes(minutes)),
            # A missed minute is made up for by the next one; a late one helps nobody.
            targets=[
                targets.LambdaFunction(alias, retry_attempts=0, max_event_age=Duration.minutes(1))
            ],
        )
