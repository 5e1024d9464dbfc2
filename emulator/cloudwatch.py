"""Log lines and metrics, straight into moto's stores: a call over HTTP a line would be too dear."""

import threading
import time
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import logs_backends

from emulator.names import ACCOUNT, REGION

_lock = threading.Lock()


def write_log(group: str, stream: str, lines: list[str]) -> None:
    """Append lines to a stream; group and stream are made where missing."""
    backend = logs_backends[ACCOUNT][REGION]
    now = int(time.time() * 1000)
    # moto's stores are not safe against threads.
    with _lock:
        if group not in backend.groups:
            backend.create_log_group(group, {})
        if stream not in backend.groups[group].streams:
            backend.create_log_stream(group, stream)
        events = [{"timestamp": now, "message": line} for line in lines if line]
        if events:
            backend.put_log_events(group, stream, events)


def put_metrics(namespace: str, values: dict[str, float], dimensions: dict[str, str]) -> None:
    """One data point a metric, now."""
    pairs = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    now = datetime.now(UTC).replace(tzinfo=None)
    data: list[dict[str, Any]] = [
        {"MetricName": name, "Value": value, "Dimensions": pairs, "Timestamp": now}
        for name, value in values.items()
    ]
    with _lock:
        cloudwatch_backends[ACCOUNT][REGION].put_metric_data(namespace, data)
