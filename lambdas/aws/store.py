"""The runs table. Every write that may race carries a condition and answers whether it won."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from botocore.exceptions import ClientError

from everstep.contracts.records import (
    ACTIVE_INDEX,
    EXPORT_PREFIX,
    LAUNCH_PREFIX,
    RUN_ITEM,
    Launch,
    Run,
    encode,
    from_item,
    item_of,
    launch_item,
    to_item,
)

ACTIVE_KEYS: dict[type[Run | Launch], str] = {Run: "waiting", Launch: "launch"}


class MissingRow(LookupError):
    """A payload points at a row that is not there."""


class Whole(NamedTuple):
    """Launches and exports oldest first."""

    run: Run
    launches: list[Launch]
    exports: list[Launch]

    def find(self, number: int) -> Launch | None:
        return next((x for x in self.launches if x.launch == number), None)

    def launch(self, number: int) -> Launch:
        found = self.find(number)
        if found is None:
            raise MissingRow(f"no launch {number} of run {self.run.run_id!r}")
        return found


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

    def find_job(self, run_id: str, item: str) -> Launch | None:
        """A launch, or an export, by the item of its row."""
        found = self._get(run_id, item)
        return from_item(Launch, found) if found else None

    def job(self, run_id: str, item: str) -> Launch:
        found = self.find_job(run_id, item)
        if found is None:
            raise MissingRow(f"no {item} of run {run_id!r} in table {self._table!r}")
        return found

    def launch(self, run_id: str, number: int) -> Launch:
        return self.job(run_id, launch_item(number))

    def launches(self, run_id: str) -> list[Launch]:
        """All launches of a run, oldest first."""
        return self._jobs(run_id, LAUNCH_PREFIX)

    def exports(self, run_id: str) -> list[Launch]:
        """All tries to export its weights, oldest first."""
        return self._jobs(run_id, EXPORT_PREFIX)

    def find_whole(self, run_id: str) -> Whole | None:
        """The run and all its jobs in one call."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="run_id = :r",
            ExpressionAttributeValues={":r": {"S": run_id}},
        )
        items = {i["item"]["S"]: _plain(i) for page in pages for i in page["Items"]}
        if RUN_ITEM not in items:
            return None
        launches, exports = (
            [from_item(Launch, row) for item, row in items.items() if item.startswith(prefix)]
            for prefix in (LAUNCH_PREFIX, EXPORT_PREFIX)
        )
        return Whole(from_item(Run, items[RUN_ITEM]), launches, exports)

    def whole(self, run_id: str) -> Whole:
        found = self.find_whole(run_id)
        if found is None:
            raise MissingRow(f"no run {run_id!r} in table {self._table!r}")
        return found

    def _jobs(self, run_id: str, prefix: str) -> list[Launch]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="run_id = :r AND begins_with(#i, :p)",
            ExpressionAttributeNames={"#i": "item"},
            ExpressionAttributeValues={":r": {"S": run_id}, ":p": {"S": prefix}},
        )
        return [from_item(Launch, _plain(i)) for page in pages for i in page["Items"]]

    def active(self, kind: Literal["launch", "increase", "waiting"]) -> Iterator[tuple[str, str]]:
        """(run id, item) of what may change by itself. The index lags: read the row again."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=ACTIVE_INDEX,
            KeyConditionExpression="active = :a",
            ExpressionAttributeValues={":a": {"S": kind}},
        )
        for page in pages:
            yield from ((i["run_id"]["S"], i["item"]["S"]) for i in page["Items"])

    def marked(self, key: str, item: str) -> bool:
        return self._get(key, item) is not None

    def mark(self, key: str, item: str) -> None:
        """Remember that something was said."""
        self._client.update_item(
            TableName=self._table,
            Key={"run_id": {"S": key}, "item": {"S": item}},
            UpdateExpression="SET said = :y",
            ExpressionAttributeValues={":y": {"S": "yes"}},
        )

    def put_new(self, record: Run | Launch) -> bool:
        """False when the row exists already."""
        item = {k: {"S": v} for k, v in to_item(record).items()}
        if isinstance(record, Launch):
            item["active"] = {"S": ACTIVE_KEYS[Launch]}
        won, _ = self._try(
            self._client.put_item,
            TableName=self._table,
            Item=item,
            ConditionExpression="attribute_not_exists(run_id)",
        )
        return won

    def update(
        self,
        record: Run | Launch,
        *,
        remove: Iterable[str] = (),
        absent: Iterable[str] = (),
        equal: dict[str, Any] | None = None,
        naming: dict[str, str] | None = None,
        active: bool | None = None,
        **changes: Any,
    ) -> bool:
        """Set fields (None removes), if the row still fits: ``absent`` fields are unset, ``equal``
        ones have these values, ``naming`` ones have this text among theirs, whichever release wrote
        the rest. ``active`` puts the row into the watchdog's index, or out of it."""
        request = self._change(record, remove, absent, equal or {}, active, changes, naming or {})
        won, _ = self._try(self._client.update_item, **request)
        return won

    def once(self, launch: Launch, field: str, value: Any, **more: Any) -> Launch:
        """Set a field that has no value yet, and others with it. The row as it is now, whoever
        was first: one call where ``update`` and a look would be two."""
        request = self._change(launch, (), (field,), {}, None, {field: value, **more}, {})
        _, row = self._try(
            self._client.update_item,
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **request,
        )
        if row is None:
            raise MissingRow(f"no {launch.item} of run {launch.run_id!r} in table {self._table!r}")
        return from_item(Launch, _plain(row))

    def _change(
        self,
        record: Run | Launch,
        remove: Iterable[str],
        absent: Iterable[str],
        equal: dict[str, Any],
        active: bool | None,
        changes: dict[str, Any],
        naming: dict[str, str],
    ) -> dict[str, Any]:
        """UpdateItem's request."""
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
        expected = encode(record.model_copy(update=equal), set(equal))
        conditions += [f"{name(f)} = {value('c', f, text)}" for f, text in expected.items()]
        conditions += [
            f"contains({name(f)}, {value('n', f, json.dumps(text))})" for f, text in naming.items()
        ]
        expression = ("SET " + ", ".join(sets) if sets else "") + (
            " REMOVE " + ", ".join(name(f) for f in sorted(gone)) if gone else ""
        )
        request: dict[str, Any] = {
            "TableName": self._table,
            "Key": {"run_id": {"S": record.run_id}, "item": {"S": item_of(record)}},
            "UpdateExpression": expression.strip(),
            "ConditionExpression": " AND ".join(conditions),
        }
        if names:
            request["ExpressionAttributeNames"] = names
        if bound:
            request["ExpressionAttributeValues"] = bound
        return request

    def _get(self, run_id: str, item: str) -> dict[str, Any] | None:
        answer = self._client.get_item(
            TableName=self._table,
            ConsistentRead=True,
            Key={"run_id": {"S": run_id}, "item": {"S": item}},
        )
        return _plain(answer["Item"]) if "Item" in answer else None

    @staticmethod
    def _try(call: Any, **request: Any) -> tuple[bool, dict[str, Any] | None]:
        """Whether the condition held; the row, where the request asks for it and there is one."""
        try:
            answer: dict[str, Any] = call(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                refused: dict[str, Any] = {**error.response}
                return False, refused.get("Item")
            raise
        return True, answer.get("Attributes")


def _plain(item: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: value["S"] for name, value in item.items()}
