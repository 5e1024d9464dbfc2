"""The runs table. Every write that may race carries a condition and answers whether it won."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from botocore.exceptions import ClientError

from everstep.contracts.records import (
    ACTIVE_INDEX,
    RUN_ITEM,
    Launch,
    Run,
    encode,
    from_item,
    launch_item,
    to_item,
)

ACTIVE_KEYS: dict[type[Run | Launch], str] = {Run: "waiting", Launch: "launch"}


class MissingRow(LookupError):
    """A payload points at a row that is not there."""


class Store:
    """Typed access to one table."""

    def __init__(self, client: Any, table: str) -> None:
        self._client, self._table = client, table

    def run(self, run_id: str) -> Run:
        item = self._get(run_id, RUN_ITEM)
        if item is None:
            raise MissingRow(f"no run {run_id!r} in table {self._table!r}")
        return from_item(Run, item)

    def find_run(self, run_id: str) -> Run | None:
        item = self._get(run_id, RUN_ITEM)
        return from_item(Run, item) if item else None

    def find_launch(self, run_id: str, number: int) -> Launch | None:
        item = self._get(run_id, launch_item(number))
        return from_item(Launch, item) if item else None

    def launch(self, run_id: str, number: int) -> Launch:
        launch = self.find_launch(run_id, number)
        if launch is None:
            raise MissingRow(f"no launch {number} of run {run_id!r} in table {self._table!r}")
        return launch

    def launches(self, run_id: str) -> list[Launch]:
        """All launches of a run, oldest first."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="run_id = :r AND begins_with(#i, :p)",
            ExpressionAttributeNames={"#i": "item"},
            ExpressionAttributeValues={":r": {"S": run_id}, ":p": {"S": "launch#"}},
        )
        return [from_item(Launch, _plain(i)) for page in pages for i in page["Items"]]

    def active(self, kind: Literal["launch", "waiting"]) -> Iterator[tuple[str, str]]:
        """(run id, item) of what may change by itself. The index lags: read the row again."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=ACTIVE_INDEX,
            KeyConditionExpression="active = :a",
            ExpressionAttributeValues={":a": {"S": kind}},
        )
        for page in pages:
            yield from ((i["run_id"]["S"], i["item"]["S"]) for i in page["Items"])

    def put_new(self, record: Run | Launch) -> bool:
        """False when the row exists already."""
        item = {k: {"S": v} for k, v in to_item(record).items()}
        if isinstance(record, Launch):
            item["active"] = {"S": ACTIVE_KEYS[Launch]}
        return self._won(
            self._client.put_item,
            TableName=self._table,
            Item=item,
            ConditionExpression="attribute_not_exists(run_id)",
        )

    def update(
        self,
        record: Run | Launch,
        *,
        remove: Iterable[str] = (),
        absent: Iterable[str] = (),
        equal: dict[str, Any] | None = None,
        active: bool | None = None,
        **changes: Any,
    ) -> bool:
        """Set fields (None removes), if the row still fits: ``absent`` fields are unset, ``equal``
        ones have these values. ``active`` puts the row into the watchdog's index, or out of it."""
        kind = type(record)
        gone = {*remove, *(n for n, v in changes.items() if v is None)}
        values = encode(record.model_copy(update=changes), set(changes) - gone)
        if active:
            values["active"] = ACTIVE_KEYS[kind]
        elif active is False:
            gone.add("active")
        names: dict[str, str] = {}
        bound: dict[str, dict[str, str]] = {}

        def name(field: str) -> str:
            names[f"#{field}"] = field
            return f"#{field}"

        def value(prefix: str, field: str, text: str) -> str:
            bound[f":{prefix}_{field}"] = {"S": text}
            return f":{prefix}_{field}"

        sets = [f"{name(f)} = {value('v', f, text)}" for f, text in values.items()]
        conditions = ["attribute_exists(run_id)"]
        conditions += [f"attribute_not_exists({name(f)})" for f in absent]
        wanted = equal or {}
        expected = encode(record.model_copy(update=wanted), set(wanted))
        conditions += [f"{name(f)} = {value('c', f, text)}" for f, text in expected.items()]
        expression = ("SET " + ", ".join(sets) if sets else "") + (
            " REMOVE " + ", ".join(name(f) for f in sorted(gone)) if gone else ""
        )
        item = RUN_ITEM if isinstance(record, Run) else launch_item(record.launch)
        request: dict[str, Any] = {
            "TableName": self._table,
            "Key": {"run_id": {"S": record.run_id}, "item": {"S": item}},
            "UpdateExpression": expression.strip(),
            "ConditionExpression": " AND ".join(conditions),
        }
        if names:
            request["ExpressionAttributeNames"] = names
        if bound:
            request["ExpressionAttributeValues"] = bound
        return self._won(self._client.update_item, **request)

    def _get(self, run_id: str, item: str) -> dict[str, Any] | None:
        answer = self._client.get_item(
            TableName=self._table,
            ConsistentRead=True,
            Key={"run_id": {"S": run_id}, "item": {"S": item}},
        )
        return _plain(answer["Item"]) if "Item" in answer else None

    @staticmethod
    def _won(call: Any, **request: Any) -> bool:
        try:
            call(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True


def _plain(item: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: value["S"] for name, value in item.items()}
