"""ListTrainingJobs and Search over records."""

from collections.abc import Iterable
from typing import Any

from emulator.training.record import Record

_ORDERED = {
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqualTo": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqualTo": lambda a, b: a <= b,
}


def list_jobs(records: Iterable[Record], parameters: dict[str, Any]) -> dict[str, Any]:
    """ListTrainingJobs."""
    found = [record for record in records if _listed(record, parameters)]
    key = {"Name": lambda r: r.name, "Status": lambda r: r.status}.get(
        parameters.get("SortBy", "CreationTime"), lambda r: r.created
    )
    found.sort(key=key, reverse=parameters.get("SortOrder", "Descending") == "Descending")
    page, token = _page(found, parameters, 10)
    return {"TrainingJobSummaries": [record.summary() for record in page], **token}


def search(records: Iterable[Record], parameters: dict[str, Any]) -> dict[str, Any]:
    """Search with ``Resource=TrainingJob``."""
    expression = parameters.get("SearchExpression", {})
    rows = []
    for record in records:
        job = {
            **record.describe(),
            "Tags": [{"Key": key, "Value": value} for key, value in record.tags.items()],
        }
        if _matches(job, record.tags, expression):
            rows.append(job)
    key = parameters.get("SortBy", "LastModifiedTime")
    rows.sort(
        key=lambda job: str(job.get(key, "")),
        reverse=parameters.get("SortOrder", "Descending") == "Descending",
    )
    page, token = _page(rows, parameters, 100)
    return {"Results": [{"TrainingJob": job} for job in page], **token}


def _page(rows: list[Any], parameters: dict[str, Any], size: int) -> tuple[list[Any], Any]:
    at, count = int(parameters.get("NextToken") or 0), int(parameters.get("MaxResults") or size)
    more = {"NextToken": str(at + count)} if at + count < len(rows) else {}
    return rows[at : at + count], more


def _listed(record: Record, parameters: dict[str, Any]) -> bool:
    pool = (record.warm_pool or {}).get("Status")
    return (
        parameters.get("StatusEquals") in (None, record.status)
        and parameters.get("NameContains", "") in record.name
        and parameters.get("WarmPoolStatusEquals") in (None, pool)
        and float(parameters.get("CreationTimeAfter", 0)) <= record.created
        and float(parameters.get("CreationTimeBefore", 1e12)) >= record.created
        and float(parameters.get("LastModifiedTimeAfter", 0)) <= record.modified
        and float(parameters.get("LastModifiedTimeBefore", 1e12)) >= record.modified
    )


def _matches(job: dict[str, Any], tags: dict[str, str], expression: dict[str, Any]) -> bool:
    results = [_filter(job, tags, item) for item in expression.get("Filters", [])]
    results += [_matches(job, tags, item) for item in expression.get("SubExpressions", [])]
    if not results:
        return True
    return any(results) if expression.get("Operator") == "Or" else all(results)


def _filter(job: dict[str, Any], tags: dict[str, str], item: dict[str, Any]) -> bool:
    name, wanted = item["Name"], item.get("Value", "")
    operator = item.get("Operator", "Equals")
    found = tags.get(name[5:]) if name.startswith("Tags.") else _value(job, name)
    if operator in ("Exists", "NotExists"):
        return (found is not None) == (operator == "Exists")
    if found is None:
        return operator == "NotEquals"
    if operator in _ORDERED:
        return bool(_ORDERED[operator](float(found), float(wanted)))
    text = str(found)
    if operator == "Contains":
        return wanted in text
    if operator == "In":
        return text in wanted.split(",")
    return (text == wanted) == (operator == "Equals")


def _value(job: Any, path: str) -> Any:
    for part in path.split("."):
        job = job.get(part) if isinstance(job, dict) else None
    return job
