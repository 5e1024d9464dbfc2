"""Functions, machine, table, queues, alarms: what is deployed beside the definition."""

import json

import pytest
from aws_cdk.assertions import Match

from everstep.contracts import names
from everstep.contracts.env import ControlEnv
from everstep.contracts.payloads import HANDLER_STATES, RULE_HANDLERS
from stacks.config import ROOT

from .conftest import Synthesised, flatten

STATE_HANDLERS = [names.handler_folder(state) for state in HANDLER_STATES]
HANDLERS = [*STATE_HANDLERS, *RULE_HANDLERS]


def test_one_function_a_handler_and_a_folder_for_each(prod: Synthesised) -> None:
    functions = prod.resources("AWS::Lambda::Function")
    assert [f["Handler"] for f in functions] == [f"lambdas.{h}.handler.handler" for h in HANDLERS]
    assert [f["FunctionName"] for f in functions] == [
        names.function_name("prod", handler) for handler in HANDLERS
    ]
    for handler in HANDLERS:
        assert (ROOT / "lambdas" / handler / "handler.py").is_file()


def test_functions_are_alike_but_for_what_config_says(prod: Synthesised) -> None:
    for function in prod.resources("AWS::Lambda::Function"):
        assert function["Runtime"] == "python3.12"
        assert function["Architectures"] == ["x86_64"]
        assert function["TracingConfig"] == {"Mode": "Active"}
        handler = function["Handler"].split(".")[1]
        slow = {"watchdog": 60, "quota_report": 60, "write_report": 300}
        assert function["Timeout"] == slow.get(handler, 30)
        assert function["Layers"] == [prod.config.powertools_layer]
        env = ControlEnv.parse(
            {k: flatten(v) for k, v in function["Environment"]["Variables"].items()}
        )
        assert env.heartbeat_seconds == prod.config.watchdog.heartbeat_seconds
    groups = prod.resources("AWS::Logs::LogGroup")
    assert all(group["RetentionInDays"] == 365 for group in groups)


def test_each_function_has_a_role_of_its_own(prod: Synthesised) -> None:
    roles = [json.dumps(f["Role"]) for f in prod.resources("AWS::Lambda::Function")]
    assert len(set(roles)) == len(HANDLERS)


def test_machine_invokes_aliases_and_nothing_else(prod: Synthesised) -> None:
    template = prod.templates["control-plane"]["Resources"]
    aliases = {k for k, v in template.items() if v["Type"] == "AWS::Lambda::Alias"}
    policies = [
        v["Properties"]
        for k, v in template.items()
        if v["Type"] == "AWS::IAM::Policy" and k.startswith("Machine")
    ]
    assert len(policies) == len(prod.config.teams)
    for policy in policies:
        (invoke,) = [
            s for s in policy["PolicyDocument"]["Statement"] if "lambda" in json.dumps(s["Action"])
        ]
        assert len(invoke["Resource"]) == len(STATE_HANDLERS)
        assert {resource["Ref"] for resource in invoke["Resource"]} <= aliases


def test_machines_are_named_after_teams_and_traced(prod: Synthesised) -> None:
    machines = prod.resources("AWS::StepFunctions::StateMachine")
    assert [m["StateMachineName"] for m in machines] == [
        "everstep-prod-research",
        "everstep-prod-applied",
    ]
    for machine in machines:
        assert machine["TracingConfiguration"] == {"Enabled": True}
        assert machine["LoggingConfiguration"]["Level"] == "ERROR"
        assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False
    literals = [json.loads(flatten(m["DefinitionString"])) for m in machines]
    teams = [d["States"]["ValidateSpec"]["Arguments"]["Payload"]["team"] for d in literals]
    assert [team["name"] for team in teams] == ["research", "applied"]
    assert teams[0]["data_uri"].endswith("/research")
    assert teams[0]["job_role_arn"] != teams[1]["job_role_arn"]


def test_a_model_package_group_a_team_is_kept_and_known_to_its_machine(prod: Synthesised) -> None:
    template = prod.templates["control-plane"]["Resources"].values()
    groups = [r for r in template if r["Type"] == "AWS::SageMaker::ModelPackageGroup"]
    wanted = ["everstep-prod-research", "everstep-prod-applied"]
    assert [g["Properties"]["ModelPackageGroupName"] for g in groups] == wanted
    assert {g["DeletionPolicy"] for g in groups} == {"Retain"}
    machines = prod.resources("AWS::StepFunctions::StateMachine")
    literals = [json.loads(flatten(m["DefinitionString"])) for m in machines]
    teams = [d["States"]["ValidateSpec"]["Arguments"]["Payload"]["team"] for d in literals]
    assert [team["model_package_group"] for team in teams] == wanted


def test_table(prod: Synthesised) -> None:
    prod.template("control-plane").has_resource(
        "AWS::DynamoDB::Table",
        {
            "Properties": {
                "KeySchema": [
                    {"AttributeName": "run_id", "KeyType": "HASH"},
                    {"AttributeName": "item", "KeyType": "RANGE"},
                ],
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": "active",
                        "KeySchema": [
                            {"AttributeName": "active", "KeyType": "HASH"},
                            {"AttributeName": "run_id", "KeyType": "RANGE"},
                        ],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
                "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                "DeletionProtectionEnabled": True,
            },
            "DeletionPolicy": "Retain",
        },
    )


@pytest.mark.parametrize(
    "pattern",
    [
        {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker Training Job State Change"],
            "detail": {"TrainingJobStatus": ["Completed", "Failed", "Stopped"]},
        },
        {
            "source": ["aws.states"],
            "detail-type": ["Step Functions Execution Status Change"],
            "detail": {
                "status": ["ABORTED", "FAILED", "TIMED_OUT"],
                "stateMachineArn": [Match.any_value(), Match.any_value()],
            },
        },
    ],
    ids=["jobs", "executions"],
)
def test_events_reach_an_encrypted_queue(prod: Synthesised, pattern: dict[str, object]) -> None:
    prod.template("control-plane").has_resource_properties(
        "AWS::Events::Rule",
        {
            "EventPattern": pattern,
            "Targets": [{"Arn": Match.any_value(), "DeadLetterConfig": Match.any_value()}],
        },
    )


def test_queues_have_dead_letters_and_handlers_report_single_failures(prod: Synthesised) -> None:
    queues = prod.resources("AWS::SQS::Queue")
    assert len(queues) == 6
    assert all("KmsMasterKeyId" in queue for queue in queues)
    behind = [queue["RedrivePolicy"] for queue in queues if "RedrivePolicy" in queue]
    assert [policy["maxReceiveCount"] for policy in behind] == [5, 5, 5]
    for mapping in prod.resources("AWS::Lambda::EventSourceMapping"):
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert "Alias" in json.dumps(mapping["FunctionName"])


def test_key_lets_the_writing_services_in(prod: Synthesised) -> None:
    (key,) = [
        r["Properties"]
        for r in prod.templates["control-plane"]["Resources"].values()
        if r["Type"] == "AWS::KMS::Key"
    ]
    services = {s["Principal"].get("Service") for s in key["KeyPolicy"]["Statement"]} - {None}
    assert services == {
        "events.amazonaws.com",
        "cloudwatch.amazonaws.com",
        "logs.us-east-1.amazonaws.com",
    }


def test_the_clocks_start_aliases(prod: Synthesised) -> None:
    rules = {
        r["ScheduleExpression"]: r["Targets"][0]["Arn"]["Ref"]
        for r in prod.resources("AWS::Events::Rule")
        if "ScheduleExpression" in r
    }
    assert set(rules) == {"rate(1 minute)", "rate(1 day)"}
    assert "WatchdogAlias" in rules["rate(1 minute)"]
    assert "QuotaReportAlias" in rules["rate(1 day)"]


def test_alarms_tell_the_topic(prod: Synthesised) -> None:
    found = prod.template("control-plane").find_resources("AWS::CloudWatch::Alarm")
    alarms = [alarm["Properties"] for alarm in found.values()]
    metrics = sorted(alarm["MetricName"] for alarm in alarms)
    assert metrics == sorted(
        ["ExecutionsFailed"] * 2
        + ["ApproximateNumberOfMessagesVisible"] * 3
        + ["Errors", "Invocations", "Throttles"]
    )
    topics = {json.dumps(alarm["AlarmActions"]) for alarm in alarms}
    assert len(topics) == 1


def test_outputs_that_the_command_line_reads(prod: Synthesised) -> None:
    assert {"TableName", "TopicArn", "StateMachineArnResearch", "StateMachineArnApplied"} <= set(
        prod.templates["control-plane"]["Outputs"]
    )
    assert {"DataBucket", "CheckpointBucket", "OutputBucket"} <= set(
        prod.templates["storage"]["Outputs"]
    )
