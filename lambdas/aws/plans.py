"""SageMaker training plans, as they are now."""

from typing import Any

from botocore.exceptions import ClientError

from everstep.policy.training_plan import Plan, plan_of

_ABSENT = frozenset({"ResourceNotFound", "ResourceNotFoundException", "ValidationException"})
"""The last: an ARN of another region or account."""


class Plans:
    def __init__(self, client: Any) -> None:
        self._client = client

    def describe(self, arn: str) -> Plan | None:
        """None where there is no such plan in this region and account."""
        try:
            return plan_of(self._client.describe_training_plan(TrainingPlanName=arn))
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise
