"""One emulator for all tests of this folder, and small things to put into it."""

import io
import json
import textwrap
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from emulator.control import Control
from emulator.service import start, stop

ACCOUNT = "123456789012"
REGION = "us-east-1"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": ["lambda.amazonaws.com", "sagemaker.amazonaws.com"]},
            "Action": "sts:AssumeRole",
        }
    ],
}
ALLOW_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """The first true value of ``condition``."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.05)
    return value


class Cloud:
    """Clients of the emulator under test, and makers of what the tests need."""

    def __init__(self, endpoint: str, state: Path) -> None:
        self.endpoint = endpoint
        self.state = state
        self.control = Control(endpoint)
        self._clients: dict[str, Any] = {}

    def __call__(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=self.endpoint,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"total_max_attempts": 1}, read_timeout=120),
            )
        return self._clients[service]

    def role(self, *statements: dict[str, Any]) -> str:
        """A role with one inline policy; everything is allowed where none is given."""
        name = unique("role")
        made = self("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))
        policy = {"Version": "2012-10-17", "Statement": list(statements) or [ALLOW_ALL]}
        self("iam").put_role_policy(
            RoleName=name, PolicyName="own", PolicyDocument=json.dumps(policy)
        )
        return str(made["Role"]["Arn"])

    def function(self, source: str, role: str | None = None, **settings: Any) -> str:
        """Deploy ``handler`` from source text; returns the function's name."""
        name = settings.pop("name", None) or unique("fn")
        settings = {"Timeout": 20, **settings}
        self("lambda").create_function(
            FunctionName=name,
            Runtime="python3.12",
            Role=role or self.role(),
            Handler="app.handler",
            Code={"ZipFile": bundle(source)},
            **settings,
        )
        return name

    def invoke(self, name: str, event: Any = None, **more: Any) -> tuple[Any, str | None]:
        """(payload, kind of error) of one invocation."""
        made = self("lambda").invoke(FunctionName=name, Payload=json.dumps(event or {}), **more)
        return json.loads(made["Payload"].read()), made.get("FunctionError")

    def machine(self, definition: dict[str, Any]) -> str:
        """A JSONata state machine; returns its ARN."""
        made = self("stepfunctions").create_state_machine(
            name=unique("machine"),
            definition=json.dumps({"QueryLanguage": "JSONata", **definition}),
            roleArn=self.role(),
        )
        return str(made["stateMachineArn"])

    def start(self, machine: str, value: Any = None, name: str | None = None) -> str:
        """Start an execution; returns its ARN."""
        made = self("stepfunctions").start_execution(
            stateMachineArn=machine, input=json.dumps(value or {}), name=name or unique("run")
        )
        return str(made["executionArn"])

    def described(self, execution: str) -> dict[str, Any]:
        """DescribeExecution."""
        found: dict[str, Any] = self("stepfunctions").describe_execution(executionArn=execution)
        return found

    def ended(self, execution: str, seconds: float = 120.0) -> dict[str, Any]:
        """The execution's description once it is no longer running."""
        until(lambda: self.described(execution)["status"] != "RUNNING", seconds)
        return self.described(execution)


def bundle(source: str) -> bytes:
    """A deployment package with one module, ``app``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        out.writestr("app.py", textwrap.dedent(source))
    return buffer.getvalue()


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A running emulator in which a scheduled minute lasts half a second."""
    state = tmp_path_factory.mktemp("emulator")
    endpoint = start(state, minute=0.5, with_parent=True)
    yield Cloud(endpoint.endpoint, state)
    stop(state)
