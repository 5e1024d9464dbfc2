"""One message for a decision that a person must know."""

from collections.abc import Callable, Sequence
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from everstep.contracts.env import ControlEnv
from everstep.contracts.failures import Failure
from everstep.contracts.records import Launch, Run
from everstep.policy.notice import SUBJECT_LENGTH, Kind, notice

logger = Logger(service="everstep", child=True)


class Notifier:
    def __init__(self, client: Any, env: ControlEnv, clock: Callable[[], float]) -> None:
        self._client, self._env, self._clock = client, env, clock

    def send(
        self,
        run: Run,
        kind: Kind,
        text: str,
        launches: Sequence[Launch] | None,
        failure: Failure | None = None,
    ) -> None:
        """Publish if the spec asked to hear of ``kind``. ``launches``: None where nobody read them.

        Sent before the fact is stored, and not once it is: a handler that dies in between says it
        twice, with the same id, rather than never. A topic that does not answer must not end a
        run: that is logged.
        """
        if kind not in run.spec.notify.on:
            return
        said = notice(
            run,
            kind,
            text,
            launches,
            failure=failure,
            runbook_url=self._env.runbook_url,
            prices_usd=self._env.prices_usd,
            now=self._clock(),
        )
        words = {"kind": kind, "team": run.team.name, "run_id": run.run_id, "id": said.id}
        self._publish(said.subject, said.body, words)

    def tell(self, subject: str, text: str) -> None:
        """What is of no run. SNS takes subjects of printable ASCII."""
        self._publish(f"[Everstep] {subject}"[:SUBJECT_LENGTH], text, {})

    def _publish(self, subject: str, body: str, words: dict[str, str]) -> None:
        try:
            self._client.publish(
                TopicArn=self._env.topic_arn,
                Subject=subject,
                Message=body,
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in words.items()
                },
            )
        except (ClientError, BotoCoreError):
            logger.exception("a message was not sent", subject=subject, about=words)
