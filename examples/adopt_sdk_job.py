"""The job of adopt_notebook_job.py, made with the real SageMaker SDK: its part sagemaker-core.

    pip install sagemaker-core
    python examples/adopt_sdk_job.py --role ROLE_ARN --bucket BUCKET --image IMAGE

Nothing of Everstep needs it. With ``ModelTrainer`` (package sagemaker-train) the tag is the
same, ``ModelTrainer(tags=[Tag(key="everstep:auto-retry", value="true")], …)``: see docs/adopt.md.
"""

import argparse
import time

import boto3
from sagemaker.core.resources import Tag, TrainingJob
from sagemaker.core.shapes import (
    AlgorithmSpecification,
    CheckpointConfig,
    OutputDataConfig,
    ResourceConfig,
    StoppingCondition,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--role", required=True, help="a role of config's adopt_job_roles")
    parser.add_argument("--bucket", required=True, help="for checkpoints and artifacts")
    parser.add_argument("--prefix", default="research/notebook")
    parser.add_argument("--image", default="local/notebook:latest")
    parser.add_argument("--name", default=f"sdk-{int(time.time())}")
    parser.add_argument("--instance-type", default="ml.m5.large")
    parser.add_argument("--steps", default="200")
    given = parser.parse_args()

    place = f"s3://{given.bucket}/{given.prefix}/{given.name}"
    job = TrainingJob.create(
        session=boto3.Session(),
        training_job_name=given.name,
        role_arn=given.role,
        algorithm_specification=AlgorithmSpecification(
            training_image=given.image,
            training_input_mode="File",
            container_entrypoint=["python", "examples/notebook_train.py"],
        ),
        hyper_parameters={"steps": given.steps},
        checkpoint_config=CheckpointConfig(s3_uri=f"{place}/checkpoints"),
        output_data_config=OutputDataConfig(s3_output_path=f"{place}/output"),
        resource_config=ResourceConfig(
            instance_type=given.instance_type, instance_count=1, volume_size_in_gb=30
        ),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=3600),
        tags=[Tag(key="everstep:auto-retry", value="true")],
    )
    print(job.training_job_arn)


if __name__ == "__main__":
    main()
