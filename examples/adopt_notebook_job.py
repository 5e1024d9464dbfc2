"""As in a notebook: one training job made with boto3, and one tag by which Everstep brings it back.

    python examples/adopt_notebook_job.py --role ROLE_ARN --bucket BUCKET --image IMAGE

Against AWS, or against the emulator where ``everstep local env`` was evaluated: there ``--role`` is
the one that config/local.toml names, and any image will do. Nothing of Everstep is imported.
"""

import argparse
import time

import boto3

AUTO_RETRY = {"Key": "everstep:auto-retry", "Value": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--role", required=True, help="a role of config's adopt_job_roles")
    parser.add_argument("--bucket", required=True, help="for checkpoints and artifacts")
    parser.add_argument("--prefix", default="research/notebook")
    parser.add_argument("--image", default="local/notebook:latest")
    parser.add_argument("--name", default=f"notebook-{int(time.time())}")
    parser.add_argument("--instance-type", default="ml.m5.large")
    parser.add_argument("--steps", default="200")
    parser.add_argument("--no-auto-retry", action="store_true", help="leave the tag out")
    given = parser.parse_args()

    place = f"s3://{given.bucket}/{given.prefix}/{given.name}"
    answer = boto3.client("sagemaker").create_training_job(
        TrainingJobName=given.name,
        RoleArn=given.role,
        AlgorithmSpecification={
            "TrainingImage": given.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "examples/notebook_train.py"],
        },
        HyperParameters={"steps": given.steps},
        # What is lost when the job fails is what is not here: the job that takes over has the same.
        CheckpointConfig={"S3Uri": f"{place}/checkpoints"},
        OutputDataConfig={"S3OutputPath": f"{place}/output"},
        ResourceConfig={
            "InstanceType": given.instance_type,
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        Tags=[] if given.no_auto_retry else [AUTO_RETRY],
    )
    print(answer["TrainingJobArn"])


if __name__ == "__main__":
    main()
