"""One message for a decision that a person must know."""

import json
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from everstep.contracts.env import ControlEnv
from everstep.contracts.records import Launch, Run
from everstep.policy.cost import spend_of

logger = Logger(service="everstep", child=True)

SUBJECT_LENGTH = 100
HISTORY_LINES = 40
"""A message holds 256 KiB, the cause of an execution 32."""


class Notifier:
    def __init__(self, client: Any, env: ControlEnv) -> None:
        self._client, self._env = client, env

    def send(self, run: Run, kind: str, text: str, launches: list[Launch]) -> None:
        """Publish if the spec asked to hear of ``kind``; the body is for people, JSON last.

        Sent before the fact is stored, so that a handler that dies in between says it twice rather
        than never. A topic that does not answer must not end a run: that is logged.
        """
        if kind not in run.spec.notify.on:
            return
        spend = spend_of(launches, self._env.prices_usd)
        facts = {
            "run_id": run.run_id,
            "team": run.team.name,
            "kind": kind,
            "attempts": sum(x.spent_attempt for x in launches),
            "gpu_hours": spend.gpu_hours,
        }
        lines = [
            f"Run {run.run_id}: {text}",
            "",
            *history(launches),
            "",
            f"Spent: {spend}.",
            f"Runbook: {self._env.runbook_url}",
            "",
            json.dumps(facts),
        ]
        try:
            self._client.publish(
                TopicArn=self._env.topic_arn,
                Subject=f"[Everstep] {run.run_id}: {kind.replace('_', ' ')}"[:SUBJECT_LENGTH],
                Message="\n".join(lines),
            )
        except (ClientError, BotoCoreError):
            logger.exception("a message was not sent", run_id=run.run_id, kind=kind)


def history(launches: list[Launch]) -> list[str]:
    """One line a launch; of a long history the first and the last ones."""
    lines = []
    if len(launches) > HISTORY_LINES:
        head, tail = launches[:5], launches[5 - HISTORY_LINES :]
        return [*history(head), f"       … {len(launches) - HISTORY_LINES} more …", *history(tail)]
    for x in launches:
        steps = f"steps {x.resume_step}–{x.last_step}" if x.last_step is not None else "no step"
        end = f"{x.failure.failure_class}: {x.failure.cause}" if x.failure else "completed"
        lines.append(f"  {x.launch:>3}  {x.nodes} × {x.instance_type}, {steps}, {end}")
    return lines
