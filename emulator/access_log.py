"""Which function called what, and whether its role allows it, dependent permissions included."""

import json
import threading
from typing import Any
from urllib.parse import unquote

from moto.dynamodb.models import dynamodb_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from emulator import cfn_fsx
from emulator.access import Statement, UnknownCondition, evaluate, statements_of
from emulator.access_needs import KEY_USES, Need, needs_of
from emulator.names import ACCOUNT, PARTITION, REGION, arn
from emulator.world import World, epoch

_CODES = {"s3": "AccessDenied", "sqs": "AccessDenied", "sns": "AuthorizationError"}


class AccessLog:
    """Checks and records every AWS call of the functions: ``calls.jsonl``, ``roles.json``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._roles: dict[str, list[Statement]] = {}

    def check(self, function: str, role: str, call: dict[str, Any]) -> dict[str, Any]:
        """The answer to a worker that is about to make a call."""
        service, operation, params = call["service"], call["operation"], call["params"]
        needs = [
            self._with_tags(_with_machine(need, params))
            for need in needs_of(service, operation, params)
        ]
        refused = self._record(function, role, service, operation, needs)
        if not refused:
            return {"allowed": True}
        return {
            "allowed": False,
            "code": _CODES.get(service, "AccessDeniedException"),
            "message": f"User: {_session(role, function)} is not authorized to perform: "
            f"{refused.action} on resource: {refused.resource or '*'} because no identity-based "
            f"policy allows the {refused.action} action",
        }

    def runtime(self, function: str, role: str, queue_arn: str | None = None) -> None:
        """What Lambda itself does with a function's role: write logs, poll its queue, trace."""
        group = arn("logs", f"log-group:/aws/lambda/{function}:log-stream:runtime")
        needs = [Need("logs:CreateLogStream", group), Need("logs:PutLogEvents", group)]
        self._record(function, role, "runtime", "WriteLogs", needs)
        if queue_arn:
            actions = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
            queue = [Need(f"sqs:{action}", queue_arn) for action in actions]
            self._record(function, role, "runtime", "PollQueue", queue)

    def _with_tags(self, need: Need) -> Need:
        """What a condition on a file system's own tags is judged by."""
        if need.action != "fsx:DeleteFileSystem" or need.resource is None:
            return need
        tags = cfn_fsx.tags(self._world, need.resource.rpartition("/")[2])
        return need._replace(context={f"aws:ResourceTag/{k}": v for k, v in tags.items()})

    def _record(
        self, function: str, role: str, service: str, operation: str, needs: list[Need]
    ) -> Need | None:
        statements = self._statements(function, role)
        rows, refused = [], None
        for need in [part for own in needs for part in (own, *_key_needs(own))]:
            try:
                verdict = evaluate(statements, need.action, need.resource, need.context)
                allowed, reason = verdict.allowed, verdict.reason
            except UnknownCondition as error:
                allowed, reason = False, f"condition operator not emulated: {error}"
            row = {**need._asdict(), "context": dict(need.context)}
            rows.append({**row, "allowed": allowed, "reason": reason})
            if not allowed and refused is None:
                refused = need
        record = {
            "time": epoch(),
            "function": function,
            "role": role,
            "service": service,
            "operation": operation,
            "denied": refused is not None,
            "needs": rows,
        }
        self._world.append("calls.jsonl", record)
        return refused

    def _statements(self, function: str, role: str) -> list[Statement]:
        statements = statements_of(policies_of(role))
        with self._lock:
            if self._roles.get(function) != statements:
                self._roles[function] = statements
                text = json.dumps(self._roles, indent=1)
                (self._world.state / "roles.json").write_text(text)
        return statements


def policies_of(role_arn: str) -> list[dict[str, Any]]:
    """A role's policy documents as deployed: inline ones and attached managed ones."""
    backend = iam_backends[ACCOUNT][PARTITION]
    role = backend.get_role_by_arn(role_arn)
    documents = [_document(text) for text in role.policies.values()]
    for policy in role.managed_policies.values():
        versions = {version.version_id: version for version in policy.versions}
        documents.append(_document(versions[policy.default_version_id].document))
    return documents


def _document(text: Any) -> dict[str, Any]:
    if isinstance(text, dict):
        return text
    parsed: dict[str, Any] = json.loads(text if text.lstrip().startswith("{") else unquote(text))
    return parsed


def _with_machine(need: Need, params: dict[str, Any]) -> Need:
    """The state machine that a task token belongs to: what SendTask* is allowed on."""
    token = params.get("taskToken")
    if not token or not need.action.startswith("states:SendTask"):
        return need
    for machine in stepfunctions_parser_backends[ACCOUNT][REGION].state_machines:
        for execution in list(machine.executions):
            env = execution.exec_worker and execution.exec_worker.env  # type: ignore[attr-defined]
            if env and token in env.callback_pool_manager._pool:
                return need._replace(resource=machine.arn)
    return need


def _key_needs(need: Need) -> list[Need]:
    """Uses of the customer key under which the thing acted on is encrypted."""
    actions = KEY_USES.get(need.action)
    key = _key_of(need.resource) if actions and need.resource else None
    return [Need(action, key) for action in actions or []] if key else []


def _key_of(resource: str) -> str | None:
    service, name = resource.split(":")[2], resource.split(":", 5)[5]
    found: Any = None
    if service == "s3":
        bucket = s3_backends[ACCOUNT][PARTITION].buckets.get(name.split("/")[0])
        found = _bucket_key(bucket.encryption if bucket else None)
    elif service == "sns":
        topic = sns_backends[ACCOUNT][REGION].topics.get(resource)
        found = topic.kms_master_key_id if topic else None
    elif service == "sqs":
        queue = sqs_backends[ACCOUNT][REGION].queues.get(name)
        found = getattr(queue, "kms_master_key_id", None)
    elif service == "dynamodb":
        tables = dynamodb_backends[ACCOUNT][REGION].tables
        table = tables.get(name.removeprefix("table/").split("/")[0])
        found = (table.sse_specification or {}).get("KMSMasterKeyId") if table else None
    return _key_arn(str(found)) if found and "alias/aws/" not in str(found) else None


def _bucket_key(encryption: Any) -> Any:
    rules = (encryption or {}).get("Rule") or []
    rule = rules[0] if isinstance(rules, list) and rules else rules
    default = rule.get("ApplyServerSideEncryptionByDefault", {}) if isinstance(rule, dict) else {}
    return default.get("KMSMasterKeyID")


def _key_arn(key: str) -> str | None:
    if key.startswith("arn:") and ":key/" in key:
        return key
    found = kms_backends[ACCOUNT][REGION].get_key_id_from_alias(key) if "alias/" in key else key
    return arn("kms", f"key/{found}") if found else None


def _session(role: str, function: str) -> str:
    return role.replace(":iam:", ":sts:").replace(":role/", ":assumed-role/") + f"/{function}"
