"""What stands on the emulator for what a page says of AWS: names, places, and a run of seconds.

A page's commands are run as they stand but for this."""

import json
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import boto3

SPEC = "examples/small.json"
"""Started wherever a page starts a run: seconds without torch. ``first``, the quick start's own
run, has trained for real and is done."""
LONG = "examples/long.json"
"""The same for days: whoever stops it finds it running."""
SMALL: dict[str, Any] = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "trainer": {"command": ["python", "tests/scenarios/foreign.py"]},
    "checkpoint": {"every_steps": 5},
    "stop": {"steps": 10, "max_runtime_hours": 1},
}
DEPLOYED = "--app .everstep/local/cdk.out"
ADOPTED = 'everstep list --name adopt- --json | sed -n \'s/.*"run_id": "\\(.*\\)".*/\\1/p\''

BUILT = (
    "aws ecr describe-images --repository-name everstep-local/trainer --output text --query "
    "\"imageDetails[?!contains(imageTags, 'stable')].imageDigest | [0]\""
)

FOR = [
    (r"(run |doctor |file://)examples/(tiny|llama2-7b)\.json", rf"\1{SPEC}"),
    (r"--env (dev|prod)\b", "--env local"),
    (r"everstep-(dev|ENV)\b", "everstep-local"),
    (r"-c env=\w+|(?<=cdk bootstrap )aws://\S+", DEPLOYED),
    (r"npx cdk", "cdk"),
    (r"http://localhost:43121", "$AWS_ENDPOINT_URL"),
    (r"(?<=--state-machine-arn )(ARN|…)", "$MACHINE"),
    (r"(?<=--execution-arn )ARN", "$EXECUTION"),
    (r"\b(DATA|CHECKPOINT)_BUCKET\b", r"$\1_BUCKET"),
    (r"/TEAM/", "/research/"),
    (r"s3://bucket/run/checkpoints", "s3://$CHECKPOINT_BUCKET/research/first"),
    (r"s3://bucket/run/export", "s3://$OUTPUT_BUCKET/research/export"),
    (r"s3://bucket/datasets/my-corpus", "s3://$DATA_BUCKET/research/datasets/stdlib"),
    (r"step-00000120\.00002", "step-00000100.00001"),
    (r"(?<==)DIGEST\b", f"$({BUILT})"),
    (r"\bL-CODE\b", "$QUOTA_CODE"),
    (r"--seeds 200\b", "--seeds 2"),
    (r"--from 50000\b", "--from 90"),
    (r"research--llama-7b", "first"),
    (r"(?<=everstep )(watch|status|logs|report|resume|clone) my-run(?! --env)", r"\1 first"),
    (r"\bmy-run\b", "$RUN"),
]  # fmt: skip
"""Regular expression → what stands for it. Variables are the shell's: see ``setting``."""

AROUND = [
    (r"everstep stop \$RUN", f"everstep run {LONG} --name $RUN && {{}}"),
    (r"everstep retry \$RUN.*", f"everstep run {LONG} --name $RUN; everstep stop $RUN && {{}}"),
    (r"python -m emulator serve .*", "{} >serve.json & until [ -s serve.json ]; do sleep 0.1; done;"
     " cat serve.json; kill $!; wait $!"),
    (r"python -m trainer.verify checkpoints/.*",
     "aws s3 cp --quiet --recursive s3://$CHECKPOINT_BUCKET/research/first checkpoints && {}"),
    (r"aws s3 ls .*my-notebook.*", "until {}; do sleep 0.2; done"),
    (r"everstep list --name adopt-.*", "until {} | grep adopt-; do sleep 0.2; done"),
    (r"everstep watch adopt-\w+", f"everstep watch $({ADOPTED})"),
    # no Session Manager, no EFA: they say so, in words
    (r"everstep shell .*", "{}; [ $? = 2 ]"),
    (r"efa-check( --image)?", "{}; [ $? = 1 ]"),
]  # fmt: skip
"""What a command needs before it can do its work here, or how it must end."""


def stand_in(line: str) -> str:
    """The line as it is run on the emulator."""
    command = named(line)
    around = next((how for known, how in AROUND if re.fullmatch(known, command)), "{}")
    return around.replace("{}", command)


def named(line: str) -> str:
    """With the emulator's names, not yet with what goes around it."""
    for said, here in FOR:
        line = re.sub(said, here, line)
    return line.partition("  #")[0].strip()


def furnish(clone: Path) -> None:
    """The files that the pages speak of, and an editor that only reads."""
    (clone / SPEC).write_text(json.dumps(SMALL))
    long = {"checkpoint": {"every_steps": 1000}, "stop": {"steps": 10_000_000}}
    (clone / LONG).write_text(json.dumps(SMALL | long))
    (clone / "job.log").write_text("NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n")
    (clone / "my-texts").mkdir()
    for page in (clone / "docs").glob("*.md"):
        (clone / "my-texts" / f"{page.stem}.txt").write_text(page.read_text(encoding="utf-8"))
    check = clone / "bin" / "efa-check"
    check.parent.mkdir()
    check.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainer.efa_check "$@"\n')
    check.chmod(0o755)


def setting(environ: Mapping[str, str]) -> dict[str, str]:
    """What the variables of ``FOR`` say, read from the deployed stacks."""
    session = boto3.Session(
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        region_name=environ["AWS_REGION"],
    )
    made = partial(session.client, endpoint_url=environ["AWS_ENDPOINT_URL"])
    (machine,) = made("stepfunctions").list_state_machines()["stateMachines"]
    (storage,) = made("cloudformation").describe_stacks(StackName="everstep-local-storage")[
        "Stacks"
    ]
    outputs = {x["OutputKey"]: x["OutputValue"] for x in storage["Outputs"]}
    quotas = made("service-quotas").get_paginator("list_aws_default_service_quotas")
    code = next(
        quota["QuotaCode"]
        for page in quotas.paginate(ServiceCode="sagemaker")
        for quota in page["Quotas"]
        if quota["QuotaName"] == "ml.m5.large for training job usage"
    )
    return {
        "MACHINE": machine["stateMachineArn"],
        "DATA_BUCKET": outputs["DataBucket"],
        "CHECKPOINT_BUCKET": outputs["CheckpointBucket"],
        "OUTPUT_BUCKET": outputs["OutputBucket"],
        "QUOTA_CODE": code,
        "EDITOR": "cat",
    }
