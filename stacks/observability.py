"""Dashboards of the fleet and of one run, saved queries, alarms on storage, the budget.

Plain CloudWatch constructs: three dozen graphs need no library on top (docs/adr/0019).
"""

from aws_cdk import Duration, Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_logs as logs
from constructs import Construct

from everstep.contracts import metrics, names
from stacks.alarms import described
from stacks.config import Config
from stacks.control_plane import ControlPlaneStack
from stacks.graphs import MINUTE, figure, graph, host, job, usage
from stacks.job_role import JOB_LOGS
from stacks.storage import REQUEST_METRICS

FIVE_MINUTES, HOUR = Duration.minutes(5), Duration.hours(1)
RUN = "RUN_ID"
"""What the run dashboard's variable replaces."""
LOW_STORAGE = 0.1
SLOW_DOWNS = 100
"""5xx answers of a bucket in five minutes. SlowDown is waited for in place: a few are weather."""

QUERIES = {
    "attempts-and-decisions": (
        "handlers",
        "fields @timestamp, run_id, launch, message, class, decision, next\n"
        "| filter ispresent(run_id)\n| sort @timestamp desc\n| limit 200",
    ),
    "handler-errors": (
        "handlers",
        # What a handler raises, the runtime writes as text: no level, no fields.
        "fields @timestamp, @log, run_id, message, exception, @message\n"
        "| filter level in ['ERROR', 'CRITICAL']"
        " or @message like /^\\[ERROR\\]|Task timed out/\n"
        "| sort @timestamp desc\n| limit 100",
    ),
    "first-cause-of-a-job": (
        "jobs",
        "fields @timestamp, @logStream, @message\n"
        "| filter @message like /Traceback|Error|Xid|NCCL WARN|out of memory|Killed/\n"
        "| sort @timestamp asc\n| limit 50",
    ),
    "steps-of-a-job": (
        "jobs",
        """parse @message '"step":*,' as step\n| parse @message '"loss":*,' as loss\n"""
        """| parse @message '"tokens_per_s":*,' as tokens_per_s\n"""
        "| filter ispresent(loss)\n| sort @timestamp desc\n| limit 500",
    ),
    "spend-and-goodput-of-runs": (
        "handlers",
        # ``.0``: the format holds a list of values, and Logs Insights numbers them.
        f"filter ispresent({metrics.RUN})\n| stats "
        + ", ".join(
            f"latest({metric.name}.0) as {metric.name}"
            for metric in metrics.ALL
            if metrics.RUN in metric.dimensions
        )
        + f" by {metrics.TEAM}, {metrics.RUN}\n| limit 1000",
    ),
}
"""Logs Insights queries by name: over which logs, and the text."""

_HOST_PRESSURE = ("DiskUtilization", "MemoryUtilization")


class ObservabilityStack(Stack):
    """Only looks: runs need nothing of it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        env_name: str,
        config: Config,
        control_plane: ControlPlaneStack,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        self.env_name, self.config = env_name, config
        self._plane = control_plane
        self._namespace = names.metrics_namespace(env_name)
        self._buckets = {
            "data": control_plane.storage.data,
            "checkpoints": control_plane.storage.checkpoints,
            "output": control_plane.storage.output,
        }
        self._fleet()
        self._run()
        self._queries()
        self._alarms()
        self._budget()

    def _fleet(self) -> None:
        board = cw.Dashboard(self, "Fleet", dashboard_name=f"everstep-{self.env_name}-fleet")
        machines = [built.machine for built in self._plane.machines.values()]
        board.add_widgets(
            graph("Runs started", [m.metric_started(statistic="Sum") for m in machines]),
            graph("Runs done", [m.metric_succeeded(statistic="Sum") for m in machines]),
            graph("Runs that gave up", [m.metric_failed(statistic="Sum") for m in machines]),
        )
        board.add_widgets(
            graph("Tokens per second, each job", [job("tokens_per_s", "Average")]),
            graph("Model FLOPs utilisation, each job", [job("mfu", "Average")]),
            graph("GPU utilisation, each host (%)", [host("GPUUtilization")]),
        )
        board.add_widgets(
            graph("Goodput, each run (%)", [self._of_run(metrics.GOODPUT)]),
            graph("Spent, each run (USD on demand)", [self._of_run(metrics.SPENT_USD)]),
            graph("Budget used, each run (%)", [self._of_run(metrics.BUDGET_USED)]),
        )
        board.add_widgets(
            graph("Attempts ended, by class", [self._ended(metrics.ATTEMPTS)]),
            graph("Runs ended, by class", [self._ended(metrics.RUNS)]),
            graph(
                "Quota headroom: at nought the next run waits",
                [figure(self._namespace, metrics.QUOTA_HEADROOM, "Minimum", period=HOUR)],
            ),
        )
        board.add_widgets(*self._storage())
        functions = {n: built.function for n, built in self._plane.handlers.functions.items()}
        board.add_widgets(
            graph("Handler errors", [f.metric_errors(statistic="Sum") for f in functions.values()]),
            graph(
                "Watchdog: milliseconds a look",
                [functions["watchdog"].metric_duration(statistic="Maximum")],
            ),
            graph(
                "Events that nobody could take",
                [
                    queue.metric_approximate_number_of_messages_visible()
                    for queue in self._plane.queues
                ],
            ),
        )
        board.add_widgets(
            graph(
                "SageMaker API calls, which have quotas of their own",
                [usage("CreateTrainingJob"), usage("DescribeTrainingJob")],
            ),
            cw.AlarmStatusWidget(
                title="Alarms", width=16, height=6, alarms=list(self._plane.alarms.values())
            ),
        )

    def _run(self) -> None:
        """One dashboard for any run: type its id in the field on top."""
        board = cw.Dashboard(
            self,
            "Run",
            dashboard_name=f"everstep-{self.env_name}-run",
            variables=[
                cw.DashboardVariable(
                    id="run",
                    type=cw.VariableType.PATTERN,
                    label="Run id",
                    input_type=cw.VariableInputType.INPUT,
                    value=RUN,
                    visible=True,
                )
            ],
        )
        board.add_widgets(
            graph("Loss", [job("loss", "Average", RUN)]),
            graph("Step: flat is no progress, a drop a resume", [job("step", "Maximum", RUN)]),
            graph("Tokens per second", [job("tokens_per_s", "Average", RUN)]),
        )
        board.add_widgets(
            graph("Model FLOPs utilisation", [job("mfu", "Average", RUN)]),
            graph("GPU utilisation (%)", [host("GPUUtilization", RUN)]),
            graph("GPU memory (%)", [host("GPUMemoryUtilization", RUN)]),
        )
        board.add_widgets(
            graph("Seconds a step waits for data", [job("data_seconds", "Average", RUN)]),
            graph("Seconds a step waits for a checkpoint", [job("save_seconds", "Maximum", RUN)]),
            graph("Host disk and memory (%)", [host(n, RUN) for n in _HOST_PRESSURE]),
        )
        board.add_widgets(
            graph("Goodput so far (%)", [self._of_run(metrics.GOODPUT, RUN)]),
            graph("Spent (USD on demand)", [self._of_run(metrics.SPENT_USD, RUN)]),
            graph(
                "Spent (GPU hours), budget used (%)",
                [self._of_run(m, RUN) for m in (metrics.SPENT_GPU_HOURS, metrics.BUDGET_USED)],
            ),
        )
        board.add_widgets(*self._storage())
        board.add_widgets(
            cw.LogQueryWidget(
                title="Attempts, classes and decisions",
                width=24,
                height=8,
                log_group_names=self._handler_groups(),
                query_string=(
                    "fields @timestamp, launch, message, class, decision, next\n"
                    f'| filter run_id = "{RUN}"\n| sort @timestamp desc\n| limit 100'
                ),
            )
        )

    def _of_run(self, metric: metrics.Metric, run: str = "") -> cw.MathExpression:
        return figure(self._namespace, metric, "Maximum", run)

    def _ended(self, metric: metrics.Metric) -> cw.MathExpression:
        return figure(self._namespace, metric, "Sum", period=HOUR)

    def _storage(self) -> list[cw.GraphWidget]:
        """Shared by all runs, so that both dashboards show the same."""
        return [
            graph("S3 5xx (SlowDown)", [self._s3(w, "5xxErrors") for w in self._buckets]),
            graph("S3 requests", [self._s3(w, "AllRequests") for w in self._buckets]),
            graph("Lustre bytes", [self._fsx(n) for n in ("DataReadBytes", "DataWriteBytes")]),
        ]

    def _handler_groups(self) -> list[str]:
        """Those that log what became of an attempt, and of the run; Logs Insights takes 50 groups
        at most."""
        looks = ("classify", "decide", "launch_attempt", "watchdog")
        wanted = (*looks, "give_up", "finish", "write_report")
        return [f"/aws/lambda/{names.function_name(self.env_name, one)}" for one in wanted]

    def _queries(self) -> None:
        groups = {"handlers": self._handler_groups(), "jobs": [JOB_LOGS]}
        for name, (where, text) in QUERIES.items():
            logs.CfnQueryDefinition(
                self,
                names.construct_id(name),
                name=f"everstep/{self.env_name}/{name}",
                log_group_names=groups[where],
                query_string=text,
            )

    def _alarms(self) -> None:
        for word in self._buckets:
            self._alarm(
                f"{word.capitalize()}SlowDown",
                described(
                    f"S3 turns requests on the {word} bucket away (SlowDown); runs wait in place",
                    "If it lasts: fewer writers a node, checkpoints less often, or data on FSx",
                    self.config.runbook_url,
                    "slow down",
                ),
                self._s3(word, "5xxErrors"),
                SLOW_DOWNS,
            )
        settings = self.config.file_system
        if settings and settings.capacity_gib:
            capacity = settings.capacity_gib * 2**30
            self._alarm(
                "LustreNearlyFull",
                described(
                    "The file system has less than a tenth of its capacity left",
                    "Release files that are in S3 (lfs hsm_release), delete old checkpoints, or "
                    "raise file_system.capacity_gib",
                    self.config.runbook_url,
                    "file system nearly full",
                ),
                self._fsx("FreeDataStorageCapacity"),
                capacity * LOW_STORAGE,
                cw.ComparisonOperator.LESS_THAN_THRESHOLD,
            )

    def _alarm(
        self,
        name: str,
        description: str,
        metric: cw.IMetric,
        threshold: float,
        comparison: cw.ComparisonOperator = (
            cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
    ) -> None:
        cw.Alarm(
            self,
            name,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=3,
            comparison_operator=comparison,
            treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
        ).add_alarm_action(actions.SnsAction(self._plane.topic))

    def _budget(self) -> None:
        """Config has checked that there is an address and a tag, activated once by hand."""
        wanted = self.config.budget
        if wanted is None:
            return
        budget = budgets.CfnBudget
        budget(
            self,
            "Budget",
            budget=budget.BudgetDataProperty(
                budget_name=f"everstep-{self.env_name}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budget.SpendProperty(amount=wanted.monthly_usd, unit="USD"),
                cost_filters={
                    "TagKeyValue": [f"user:environment${self.config.tags['environment']}"]
                },
            ),
            notifications_with_subscribers=[
                budget.NotificationWithSubscribersProperty(
                    notification=budget.NotificationProperty(
                        comparison_operator="GREATER_THAN",
                        notification_type="ACTUAL",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budget.SubscriberProperty(
                            subscription_type="EMAIL", address=self.config.alarm_email or ""
                        )
                    ],
                )
                for percent in wanted.alert_percent
            ],
        )

    def _s3(self, word: str, name: str) -> cw.Metric:
        return cw.Metric(
            namespace="AWS/S3",
            metric_name=name,
            label=word,
            dimensions_map={
                "BucketName": self._buckets[word].bucket_name,
                "FilterId": REQUEST_METRICS,
            },
            statistic="Sum",
            period=FIVE_MINUTES,
        )

    def _fsx(self, name: str) -> cw.Metric:
        """Of the stack's file system; an empty graph where there is none."""
        system = self._plane.storage.file_system
        return cw.Metric(
            namespace="AWS/FSx",
            metric_name=name,
            dimensions_map={"FileSystemId": system.id if system else "none"},
            statistic="Sum",
            period=MINUTE,
        )
