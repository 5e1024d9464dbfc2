"""The model registry, as far as a run uses it."""

from typing import Any


def test_a_client_token_makes_one_version(cloud: Any) -> None:
    sagemaker = cloud("sagemaker")
    sagemaker.create_model_package_group(ModelPackageGroupName="team")
    first = sagemaker.create_model_package(
        ModelPackageGroupName="team", ModelPackageDescription="one", ClientToken="a-1"
    )
    again = sagemaker.create_model_package(
        ModelPackageGroupName="team", ModelPackageDescription="one", ClientToken="a-1"
    )
    other = sagemaker.create_model_package(
        ModelPackageGroupName="team", ModelPackageDescription="two", ClientToken="a-2"
    )
    assert first["ModelPackageArn"] == again["ModelPackageArn"] != other["ModelPackageArn"]
    listed = sagemaker.list_model_packages(
        ModelPackageGroupName="team", ModelPackageType="Versioned"
    )["ModelPackageSummaryList"]
    assert sorted(m["ModelPackageDescription"] for m in listed) == ["one", "two"]
