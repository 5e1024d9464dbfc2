"""Functions: isolated, warm, timed, killed, denied, with their logs."""

import json
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from emulator import lambda_worker
from emulator.access_report import access_report

from .conftest import Cloud, bundle, unique, until

LOOK = """
    import os, sys

    def handler(event, context):
        names = {}
        for name in ("boto3", "pydantic", "aws_lambda_powertools", "everstep", "moto", "torch"):
            try:
                __import__(name)
                names[name] = True
            except ImportError:
                names[name] = False
        return {
            "imports": names,
            "environment": sorted(os.environ),
            "pid": os.getpid(),
            "name": context.function_name,
            "left": context.get_remaining_time_in_millis(),
        }
"""
CALLER = """
    import boto3

    def handler(event, context):
        client = boto3.client("s3")
        if event["do"] == "get":
            return client.get_object(Bucket=event["bucket"], Key="k")["Body"].read().decode()
        client.put_object(Bucket=event["bucket"], Key="k", Body=b"x")
        return "put"
"""
LIFE = """
    import os, time

    def handler(event, context):
        print("hello from", event["do"])
        if event["do"] == "sleep":
            time.sleep(300)
        if event["do"] == "exit":
            os._exit(3)
        if event["do"] == "raise":
            raise KeyError("nothing here")
        return event["do"]
"""


def test_a_function_sees_its_own_things_only(cloud: Cloud) -> None:
    name = cloud.function(LOOK, Environment={"Variables": {"OWN": "1"}})
    seen, error = cloud.invoke(name)
    assert error is None
    assert seen["imports"] == {
        "boto3": True,
        "pydantic": True,
        "aws_lambda_powertools": True,
        "everstep": False,
        "moto": False,
        "torch": False,
    }
    assert "OWN" in seen["environment"]
    assert "HOME" not in seen["environment"]
    assert seen["name"] == name
    assert 0 < seen["left"] <= 20_000


def test_workers_are_kept_and_replaced_with_the_code(cloud: Cloud) -> None:
    name = cloud.function(LOOK)
    first = cloud.invoke(name)[0]["pid"]
    assert cloud.invoke(name)[0]["pid"] == first
    cloud("lambda").update_function_code(
        FunctionName=name, ZipFile=bundle("def handler(event, context): return 'new'")
    )
    assert cloud.invoke(name)[0] == "new"


def test_versions_and_aliases_keep_their_code(cloud: Cloud) -> None:
    name = cloud.function("def handler(event, context): return 'one'")
    client = cloud("lambda")
    version = client.publish_version(FunctionName=name)["Version"]
    client.create_alias(FunctionName=name, Name="live", FunctionVersion=version)
    client.update_function_code(
        FunctionName=name, ZipFile=bundle("def handler(event, context): return 'two'")
    )
    assert cloud.invoke(name)[0] == "two"
    assert cloud.invoke(name, Qualifier="live")[0] == "one"


def test_errors_have_lambdas_shape(cloud: Cloud) -> None:
    name = cloud.function(LIFE, Timeout=1)
    payload, error = cloud.invoke(name, {"do": "raise"})
    assert (error, payload["errorType"]) == ("Unhandled", "KeyError")
    assert payload["errorMessage"] == "'nothing here'"
    assert "app.py" in payload["stackTrace"][0]
    payload, error = cloud.invoke(name, {"do": "exit"})
    assert payload["errorType"] == "Runtime.ExitError"
    assert cloud.invoke(name, {"do": "fine"})[0] == "fine"
    begun = time.monotonic()
    payload, error = cloud.invoke(name, {"do": "sleep"})
    assert payload["errorType"] == "Sandbox.Timedout"
    assert time.monotonic() - begun < 100


def test_logs_go_to_the_functions_group(cloud: Cloud) -> None:
    name = cloud.function(LIFE)
    cloud.invoke(name, {"do": "fine"})

    def lines() -> list[str]:
        events = cloud("logs").filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
        return [event["message"] for event in events]

    until(lambda: any("hello from fine" in line for line in lines()))
    until(lambda: any(line.startswith("REPORT RequestId") for line in lines()))


def test_a_crash_comes_after_the_work(cloud: Cloud) -> None:
    bucket = unique("crash")
    cloud("s3").create_bucket(Bucket=bucket)
    name = cloud.function(CALLER)
    cloud.control.crash_lambda(name)
    payload, error = cloud.invoke(name, {"do": "put", "bucket": bucket})
    assert (error, payload["errorType"]) == ("Unhandled", "Runtime.ExitError")
    assert cloud("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert cloud.invoke(name, {"do": "put", "bucket": bucket})[0] == "put"


def test_a_role_is_enforced_and_reported(cloud: Cloud) -> None:
    bucket = unique("own")
    cloud("s3").create_bucket(Bucket=bucket)
    actions = ["s3:PutObject", "s3:DeleteObject"]
    own = {"Effect": "Allow", "Action": actions, "Resource": f"arn:aws:s3:::{bucket}/*"}
    logs = {"Effect": "Allow", "Action": "logs:*", "Resource": "*"}
    name = cloud.function(CALLER, role=cloud.role(own, logs))
    assert cloud.invoke(name, {"do": "put", "bucket": bucket})[0] == "put"
    payload, error = cloud.invoke(name, {"do": "get", "bucket": bucket})
    assert (error, payload["errorType"]) == ("Unhandled", "ClientError")
    assert "AccessDenied" in payload["errorMessage"]
    report = access_report(cloud.state)
    denied = [item for item in report["denied"] if item["function"] == name]
    assert [item["call"] for item in denied] == ["s3:GetObject"]
    assert denied[0]["needs"][0]["action"] == "s3:GetObject"
    (unused,) = report["functions"][name]["unused"]
    assert unused["actions"] == ["s3:DeleteObject"]


def test_asynchronous_invocation_answers_at_once(cloud: Cloud) -> None:
    bucket = unique("async")
    cloud("s3").create_bucket(Bucket=bucket)
    name = cloud.function(CALLER)
    made = cloud("lambda").invoke(
        FunctionName=name,
        InvocationType="Event",
        Payload=json.dumps({"do": "put", "bucket": bucket}),
    )
    assert made["StatusCode"] == 202
    until(lambda: cloud("s3").list_objects_v2(Bucket=bucket)["KeyCount"])


def test_an_unknown_function_is_not_found(cloud: Cloud) -> None:
    with pytest.raises(ClientError) as caught:
        cloud.invoke("no-such-function")
    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"


def test_the_worker_script_needs_nothing_of_ours() -> None:
    source = Path(lambda_worker.__file__).read_text()
    assert "from emulator" not in source
    assert "import emulator" not in source
