"""Buckets, key, file system, registries."""

import re
from typing import Any

import pytest
from aws_cdk.assertions import Match

from everstep.contracts import names

from .conftest import Synthesised, flatten

DATA_BUCKETS = (names.OUTPUT_DATA, names.OUTPUT_CHECKPOINTS, names.OUTPUT_OUTPUT)


@pytest.fixture(scope="module")
def buckets(prod: Synthesised) -> dict[str, dict[str, Any]]:
    """By output name; the access-log bucket as ``logs``."""
    template = prod.templates["storage"]
    ids = {name: template["Outputs"][name]["Value"]["Ref"] for name in DATA_BUCKETS}
    all_ids = {k for k, v in template["Resources"].items() if v["Type"] == "AWS::S3::Bucket"}
    (logs,) = all_ids - set(ids.values())
    return {
        name: template["Resources"][logical] | {"Id": logical}
        for name, logical in {**ids, "logs": logs}.items()
    }


def test_every_bucket_is_versioned_private_and_kept(buckets: dict[str, Any]) -> None:
    for bucket in buckets.values():
        properties = bucket["Properties"]
        assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(properties["PublicAccessBlockConfiguration"]) == 4
        assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"


def test_data_buckets_use_the_key_and_log_their_access(buckets: dict[str, Any]) -> None:
    for name in DATA_BUCKETS:
        properties = buckets[name]["Properties"]
        (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        assert "KMSMasterKeyID" in rule["ServerSideEncryptionByDefault"]
        assert rule["BucketKeyEnabled"] is True
        logging = properties["LoggingConfiguration"]
        assert logging["DestinationBucketName"] == {"Ref": buckets["logs"]["Id"]}


def test_buckets_refuse_plain_http(prod: Synthesised, buckets: dict[str, Any]) -> None:
    for bucket in buckets.values():
        prod.template("storage").has_resource_properties(
            "AWS::S3::BucketPolicy",
            {
                "Bucket": {"Ref": bucket["Id"]},
                "PolicyDocument": {
                    "Statement": Match.array_with(
                        [
                            Match.object_like(
                                {
                                    "Effect": "Deny",
                                    "Action": "s3:*",
                                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                                }
                            )
                        ]
                    )
                },
            },
        )


def test_no_rule_expires_a_checkpoint(buckets: dict[str, Any]) -> None:
    for name in DATA_BUCKETS:
        for rule in buckets[name]["Properties"]["LifecycleConfiguration"]["Rules"]:
            assert "ExpirationInDays" not in rule
            assert "ExpirationDate" not in rule
            assert "Transitions" not in rule


def test_requests_are_measured_by_the_id_that_alarms_and_graphs_read(
    prod: Synthesised, buckets: dict[str, Any]
) -> None:
    ids = set()
    for name in DATA_BUCKETS:
        (metrics,) = buckets[name]["Properties"]["MetricsConfigurations"]
        assert set(metrics) == {"Id"}  # no prefix, no tag: every request
        ids.add(metrics["Id"])
    (measured,) = ids
    alarms = [
        dimension["Value"]
        for alarm in prod.resources("AWS::CloudWatch::Alarm")
        for query in alarm.get("Metrics", [])
        for dimension in query.get("MetricStat", {}).get("Metric", {}).get("Dimensions", [])
        if dimension["Name"] == "FilterId"
    ]
    boards = [flatten(b["DashboardBody"]) for b in prod.resources("AWS::CloudWatch::Dashboard")]
    graphs = [found for board in boards for found in re.findall(r'"FilterId","(.*?)"', board)]
    assert len(alarms) >= len(DATA_BUCKETS) - 1
    assert len(graphs) >= len(DATA_BUCKETS)
    assert {*alarms, *graphs} == {measured}


def test_keys_rotate_and_are_kept(prod: Synthesised) -> None:
    for part in ("network", "storage", "control-plane"):
        template = prod.template(part)
        assert template.find_resources("AWS::KMS::Key"), part  # "all" of none would say nothing
        template.all_resources(
            "AWS::KMS::Key",
            {"Properties": {"EnableKeyRotation": True}, "DeletionPolicy": "Retain"},
        )


def test_file_system_is_what_config_says(prod: Synthesised) -> None:
    template = prod.template("storage")
    template.has_resource(
        "AWS::FSx::FileSystem",
        {
            "Properties": {
                "FileSystemType": "LUSTRE",
                "StorageCapacity": 1200,
                "KmsKeyId": Match.any_value(),
                "LustreConfiguration": {
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 250,
                    "EfaEnabled": Match.absent(),
                },
            },
            "DeletionPolicy": "Retain",
        },
    )


def _links(found: Synthesised) -> dict[str, tuple[str, list[str], bool]]:
    """Path → (where to, which policies, whether the metadata is imported at once)."""
    return {
        link["FileSystemPath"]: (
            flatten(link["DataRepositoryPath"]),
            sorted(link.get("S3", {})),
            link["BatchImportMetaDataOnCreate"],
        )
        for link in found.resources("AWS::FSx::DataRepositoryAssociation")
    }


def test_each_team_has_links_of_its_own_and_no_checkpoint_moves_by_itself(
    prod: Synthesised, more: Synthesised
) -> None:
    links = _links(more)
    assert set(_links(prod)) == {path for path in links if not path.startswith("/exports/")}
    assert len(links) == 6
    for team in ("research", "applied"):
        data, checkpoints, exports = (
            links[path] for path in (f"/{team}", f"/checkpoints/{team}", f"/exports/{team}")
        )
        assert data[1:] == (["AutoImportPolicy"], True)
        assert checkpoints[1:] == ([], False)
        assert exports[1:] == (["AutoExportPolicy"], False)
        assert all(where.endswith((f"/{team}/", f"/{team}/fsx/")) for where, *_ in
                   (data, checkpoints, exports))  # fmt: skip
        assert f"{names.OUTPUT_DATA}Store" in data[0]
        assert f"{names.OUTPUT_CHECKPOINTS}Store" in checkpoints[0]


def test_registry_scans_encrypts_and_moves_one_tag_only(prod: Synthesised) -> None:
    prod.template("images").has_resource_properties(
        "AWS::ECR::Repository",
        {
            "RepositoryName": "everstep-prod/trainer",
            "ImageScanningConfiguration": {"ScanOnPush": True},
            "EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": Match.any_value()},
            "ImageTagMutability": "IMMUTABLE_WITH_EXCLUSION",
            "ImageTagMutabilityExclusionFilters": [
                {
                    "ImageTagMutabilityExclusionFilterType": "WILDCARD",
                    "ImageTagMutabilityExclusionFilterValue": "stable",
                }
            ],
        },
    )
