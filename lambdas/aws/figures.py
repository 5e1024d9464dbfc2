"""Metrics by the log: Powertools writes the line, CloudWatch reads it."""

import json
import sys
from collections.abc import Mapping
from math import isfinite

from aws_lambda_powertools.metrics import EphemeralMetrics

from everstep.contracts.failures import FailureClass
from everstep.contracts.metrics import (
    ENDING,
    QUOTA,
    QUOTA_HEADROOM,
    RUN,
    TEAM,
    Metric,
    ending,
)
from everstep.contracts.records import Run


class Figures:
    """A namespace an environment: two in one account are not mixed."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def of_run(self, run: Run, values: Mapping[Metric, float | None]) -> None:
        self._say(values, {TEAM: run.team.name, RUN: run.run_id})

    def ended(self, what: Metric, run: Run, failure_class: FailureClass | None) -> None:
        """One more attempt, or run."""
        self._say({what: 1}, {TEAM: run.team.name, ENDING: ending(failure_class)})

    def headroom(self, quotas: Mapping[str, float]) -> None:
        for name, value in quotas.items():
            self._say({QUOTA_HEADROOM: value}, {QUOTA: name})

    def _say(self, values: Mapping[Metric, float | None], dimensions: Mapping[str, str]) -> None:
        known = {m: v for m, v in values.items() if v is not None and isfinite(v)}
        if not known:
            return
        # No service: it would be one more dimension, and the dashboards' searches name them all.
        line = EphemeralMetrics(namespace=self._namespace, service="")
        for name, word in dimensions.items():
            line.add_dimension(name, word)
        for metric, value in known.items():
            line.add_metric(metric.name, metric.unit, value)
        # One write: print makes two, and the watchdog's threads share the stream.
        sys.stdout.write(json.dumps(line.serialize_metric_set()) + "\n")
