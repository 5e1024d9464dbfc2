"""SageMaker's model registry."""

from datetime import UTC, datetime
from typing import Any


class Models:
    def __init__(self, client: Any) -> None:
        self._client = client

    def register(self, request: dict[str, Any], since_epoch: float) -> str:
        """The ARN of the version with this description: an earlier invocation's, or a new one.

        The request's own token covers two invocations at once; how long SageMaker remembers a
        token is not documented, so versions are listed first.
        """
        pages = self._client.get_paginator("list_model_packages").paginate(
            ModelPackageGroupName=request["ModelPackageGroupName"],
            ModelPackageType="Versioned",
            CreationTimeAfter=datetime.fromtimestamp(since_epoch, UTC),
            SortBy="CreationTime",
            SortOrder="Descending",
        )
        for page in pages:
            for known in page["ModelPackageSummaryList"]:
                if known.get("ModelPackageDescription") == request["ModelPackageDescription"]:
                    return str(known["ModelPackageArn"])
        return str(self._client.create_model_package(**request)["ModelPackageArn"])
