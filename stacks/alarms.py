"""When a person is told. Runs tell by themselves; these say that Everstep itself is ill."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

FIVE_MINUTES = Duration.minutes(5)


def described(what: str, todo: str, runbook: str, alarm: str) -> str:
    """``alarm``: the words behind "Alarm:" in a heading of docs/runbook.md."""
    return f"{what}. {todo}. {runbook}#alarm-{alarm.replace(' ', '-')}"


class ControlAlarms(Construct):
    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        topic: sns.ITopic,
        machines: Mapping[str, sfn.IStateMachine],
        dead_queues: Mapping[str, sqs.IQueue],
        watchdog: lambda_.IFunction,
        watchdog_minutes: int,
        runbook: str,
    ) -> None:
        super().__init__(scope, name)
        self.alarms: dict[str, cw.Alarm] = {}
        self._action = actions.SnsAction(topic)
        for team, machine in machines.items():
            self._alarm(
                f"{team}ExecutionsFailed",
                described(
                    f"A run of {team} failed",
                    "Read its message, or the execution's cause: it says why, and what to do",
                    runbook,
                    "run failed",
                ),
                machine.metric_failed(period=FIVE_MINUTES, statistic="Sum"),
            )
        for word, queue in dead_queues.items():
            self._alarm(
                f"{word}DeadLetters",
                described(
                    f"Events that no handler could take lie in {word}'s dead-letter queue",
                    "Read the handler's log, mend the cause, then `everstep redrive-dlq`",
                    runbook,
                    "dead letters",
                ),
                queue.metric_approximate_number_of_messages_visible(
                    period=FIVE_MINUTES, statistic="Maximum"
                ),
            )
        self._alarm(
            "WatchdogErrors",
            described(
                "The watchdog fails: hangs go unseen, and launches turn to InspectAttempt",
                "Read its log: one line a run that it could not look at",
                runbook,
                "watchdog errors",
            ),
            watchdog.metric_errors(period=FIVE_MINUTES, statistic="Sum"),
            threshold=3,
        )
        window = Duration.minutes(max(5, 2 * watchdog_minutes))
        self._alarm(
            "WatchdogMissing",
            described(
                "The watchdog was not invoked",
                "Enable its rule in EventBridge, or deploy again; look for throttled functions",
                runbook,
                "watchdog missing",
            ),
            watchdog.metric_invocations(period=window, statistic="Sum"),
            comparison=cw.ComparisonOperator.LESS_THAN_THRESHOLD,
            missing=cw.TreatMissingData.BREACHING,
        )
        self._alarm(
            "LambdaThrottled",
            described(
                "Functions of this account are throttled: its Lambda concurrency is used up",
                "Find the function that takes it, or ask for more in Service Quotas",
                runbook,
                "functions throttled",
            ),
            # Without a dimension, Lambda's metric is the sum over the account in this region.
            cw.Metric(
                namespace="AWS/Lambda",
                metric_name="Throttles",
                period=FIVE_MINUTES,
                statistic="Sum",
            ),
        )

    def _alarm(
        self,
        name: str,
        description: str,
        metric: cw.IMetric,
        *,
        threshold: float = 1,
        comparison: cw.ComparisonOperator = (
            cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
        missing: cw.TreatMissingData = cw.TreatMissingData.NOT_BREACHING,
    ) -> None:
        alarm = cw.Alarm(
            self,
            name,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(self._action)
        self.alarms[name] = alarm
