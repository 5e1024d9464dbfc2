"""Quota increases: asked for once, remembered in the runs table, followed to their end."""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from everstep.contracts.increases import INCREASE_ITEM, OPEN, Held, Increase, increase_key
from everstep.policy.increase import followed
from everstep.policy.quota import SERVICE_CODE
from lambdas.aws.quotas import Quotas

_REFUSALS = frozenset(
    {
        "AccessDeniedException",
        "DependencyAccessDeniedException",
        "IllegalArgumentException",
        "InvalidResourceStateException",
        "NoSuchResourceException",
        "QuotaExceededException",
        "ResourceAlreadyExistsException",
    }
)


class NotAsked(Exception):
    """Service Quotas took no request; the text says why."""


class Increases:
    def __init__(
        self, client: Any, dynamodb: Any, table: str, quotas: Quotas, clock: Callable[[], float]
    ) -> None:
        self._client, self._dynamodb, self._table = client, dynamodb, table
        self._quotas, self._clock = quotas, clock

    def known(self, code: str) -> Increase | None:
        """The last request for a quota, whoever asked."""
        return self.by_key(increase_key(code))

    def by_key(self, key: str) -> Increase | None:
        answer = self._dynamodb.get_item(TableName=self._table, ConsistentRead=True, Key=_key(key))
        text = answer.get("Item", {}).get(INCREASE_ITEM)
        return Increase.model_validate_json(text["S"]) if text else None

    def ask(self, held: Held, desired: float, run_id: str) -> Increase:
        """Ask, or find that it was asked: by an invocation that died, or by a person."""
        try:
            answer = self._client.request_service_quota_increase(
                ServiceCode=SERVICE_CODE, QuotaCode=held.code, DesiredValue=desired
            )
            made = answer["RequestedQuota"]
        except ClientError as error:
            details = error.response["Error"]
            if details["Code"] not in _REFUSALS:
                raise
            made = self._open(held.code) if details["Code"].startswith("ResourceAlready") else None
            if made is None:
                raise NotAsked(f"{details['Code']}: {details.get('Message', '')}") from None
        now = self._clock()
        increase = Increase(
            quota=held.name,
            code=held.code,
            desired=made["DesiredValue"],
            request_id=made["Id"],
            status=made["Status"],
            case_id=made.get("CaseId"),
            asked_by=run_id,
            asked_epoch=now,
            checked_epoch=now,
        )
        self._put(increase)
        return increase

    def follow(self, key: str, period_seconds: float) -> None:
        """Look at an open request, if the last look is a period ago. Its end wakes whoever waits:
        the watchdog sees the new value, or that no request is open any more."""
        known = self.by_key(key)
        now = self._clock()
        if known is None or not known.open or now - known.checked_epoch < period_seconds:
            return
        answer = self._client.get_requested_service_quota_change(RequestId=known.request_id)
        said = answer["RequestedQuota"]
        if said["Status"] not in OPEN:
            self._quotas.forget()
        held = self._quotas.held().get(known.quota)
        self._put(
            followed(known, said["Status"], said.get("CaseId"), held.value if held else 0.0, now)
        )

    def _open(self, code: str) -> dict[str, Any] | None:
        pages = self._client.get_paginator(
            "list_requested_service_quota_change_history_by_quota"
        ).paginate(ServiceCode=SERVICE_CODE, QuotaCode=code)
        requests = [r for page in pages for r in page["RequestedQuotas"] if r["Status"] in OPEN]
        return max(requests, key=lambda r: r["Created"], default=None)

    def _put(self, increase: Increase) -> None:
        """The whole row: two who write it at once read the same from AWS."""
        keep = "SET #i = :i, active = :a" if increase.open else "SET #i = :i REMOVE active"
        values = {":i": {"S": increase.model_dump_json()}}
        if increase.open:
            values[":a"] = {"S": INCREASE_ITEM}
        self._dynamodb.update_item(
            TableName=self._table,
            Key=_key(increase.key),
            UpdateExpression=keep,
            ExpressionAttributeNames={"#i": INCREASE_ITEM},
            ExpressionAttributeValues=values,
        )


def _key(run_id: str) -> dict[str, Any]:
    return {"run_id": {"S": run_id}, "item": {"S": INCREASE_ITEM}}
