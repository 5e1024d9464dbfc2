"""SageMaker's instance metrics in CloudWatch."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

NAMESPACE = "/aws/sagemaker/TrainingJobs"
PERIOD_SECONDS = 60
HOSTS_SAMPLED = 4
"""Of a job: its hosts step together, so that a few tell of all."""
QUERIES = 500
"""GetMetricData's limit a call."""
LATE_SECONDS = 300
"""Metrics come a minute or more after the fact."""


class Question(NamedTuple):
    """How busy were this job's GPUs at most, over the last ``seconds``?"""

    job: str
    nodes: int
    seconds: int


class Metrics:
    def __init__(self, client: Any) -> None:
        self._client = client

    def busiest(self, questions: Iterable[Question], now: float) -> Mapping[str, float]:
        """Per cent by job, one call for all of them. A job is left out where no datapoint is as old
        as its question: a metric that is missing is not a GPU that is idle."""
        asked = {
            f"q{i}": (question, host)
            for i, (question, host) in enumerate(
                (q, host) for q in questions for host in range(1, min(q.nodes, HOSTS_SAMPLED) + 1)
            )
        }
        found: dict[str, float] = {}
        names = list(asked)
        for begin in range(0, len(names), QUERIES):
            batch = names[begin : begin + QUERIES]
            span = max(asked[name][0].seconds for name in batch) + LATE_SECONDS
            for name, points in self._read({n: asked[n] for n in batch}, now, span).items():
                question = asked[name][0]
                inside = [v for t, v in points if t >= now - question.seconds - PERIOD_SECONDS]
                old = any(t <= now - question.seconds + LATE_SECONDS for t, _ in points)
                if inside and old:
                    found[question.job] = max(*inside, found.get(question.job, 0.0))
        return found

    def _read(
        self, asked: Mapping[str, tuple[Question, int]], now: float, span: int
    ) -> dict[str, list[tuple[float, float]]]:
        pages = self._client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[
                {
                    "Id": name,
                    "MetricStat": {
                        "Metric": {
                            "Namespace": NAMESPACE,
                            "MetricName": "GPUUtilization",
                            "Dimensions": [
                                {"Name": "Host", "Value": f"{question.job}/algo-{host}"}
                            ],
                        },
                        "Period": PERIOD_SECONDS,
                        "Stat": "Maximum",
                    },
                }
                for name, (question, host) in asked.items()
            ],
            StartTime=datetime.fromtimestamp(now - span, UTC),
            EndTime=datetime.fromtimestamp(now, UTC),
        )
        points: dict[str, list[tuple[float, float]]] = {}
        for page in pages:
            for result in page["MetricDataResults"]:
                times = (t.timestamp() for t in result["Timestamps"])
                points.setdefault(result["Id"], []).extend(
                    zip(times, result["Values"], strict=True)
                )
        return points
