"""Graphs of the dashboards: a job's, a host's, an API's, and what handlers emit."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cw

from everstep.contracts.metrics import RUN, Metric
from everstep.contracts.progress import METRIC_NAMESPACE

MINUTE = Duration.minutes(1)


def graph(title: str, metrics: list[cw.IMetric]) -> cw.GraphWidget:
    return cw.GraphWidget(title=title, width=8, height=6, left=metrics)


def _search(dimension: str, name: str, statistic: str, run: str) -> cw.MathExpression:
    """Jobs come and go, so graphs search: at most 100 at once, CloudWatch's own limit."""
    only = f" {dimension}={run}" if run else ""
    text = f'{{{METRIC_NAMESPACE},{dimension}}} MetricName="{name}"{only}'
    return cw.MathExpression(
        expression=f"SEARCH('{text}', '{statistic}', 60)", label="", period=MINUTE
    )


def job(name: str, statistic: str, run: str = "") -> cw.MathExpression:
    """A field of the progress line, of each training job."""
    return _search("TrainingJobName", f"everstep:{name}", statistic, run)


def host(name: str, run: str = "") -> cw.MathExpression:
    """SageMaker's own figure of each host."""
    return _search("Host", name, "Average", run)


def usage(call: str) -> cw.Metric:
    """How much an API is used, which is what its quota is compared with."""
    return cw.Metric(
        namespace="AWS/Usage",
        metric_name="CallCount",
        label=call,
        dimensions_map={
            "Service": "SageMaker",
            "Type": "API",
            "Resource": call,
            "Class": "None",
        },
        statistic="Sum",
        period=MINUTE,
    )


def figure(
    namespace: str, metric: Metric, statistic: str, run: str = "", period: Duration = MINUTE
) -> cw.MathExpression:
    """What handlers emit, a line for each value of its dimensions."""
    only = f' {RUN}="{run}"' if run else ""
    schema = ",".join((f'"{namespace}"', *metric.dimensions))
    text = f'{{{schema}}} MetricName="{metric.name}"{only}'
    return cw.MathExpression(
        expression=f"SEARCH('{text}', '{statistic}', {int(period.to_seconds())})",
        label="",
        period=period,
    )
