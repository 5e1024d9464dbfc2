"""Every finding of a tool that stays, with its reason, on the resources that it is about.

A row is a rule of cdk-nag (AwsSolutions, NIST 800-53 R5, our own), of CDK's template checks and
warnings, of checkov or of cfn-lint, for resources of one kind whose construct path matches;
``stacks.acknowledge`` applies it resource by resource, never to a stack. Parliament's rows and
hadolint's follow. Which wildcards a policy may have is a table of its own, ``stacks.wildcards``.
All are written out in docs/security.md; a test finds rows that nothing needs. Why: docs/adr/0017.

No CDK here: parliament reads this from an environment that has none.
"""

from typing import NamedTuple


class Suppression(NamedTuple):
    """``where``: a regular expression over the construct's path below its stack."""

    rules: tuple[str, ...]
    kind: str
    """CloudFormation's type, or ``IMPORTED``."""
    reason: str
    where: str = ".*"


IMPORTED = "imported"
"""A construct for something that is not ours: no resource is below it."""
NIST = "NIST.800.53.R5-"

SUPPRESSIONS = (
    Suppression(
        ("AwsSolutions-L1",),
        "AWS::Lambda::Function",
        "Python 3.12 on purpose, a runtime that Lambda supports: it is pinned together with the "
        "Powertools layer, whose name holds the version, for every partition that layer is "
        "published in; both move in one change (config's lambdas.powertools_layer)",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaInsideVPC", "CKV_AWS_117"),
        "AWS::Lambda::Function",
        "handlers call AWS's APIs only, and no data passes through them: in the VPC they would "
        "need endpoints for ten services, or a NAT, and stop with either",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaConcurrency", "CKV_AWS_115"),
        "AWS::Lambda::Function",
        "a reserved concurrency would be taken from the account's other functions and would "
        "throttle recovery when many runs fail at once; throttling has an alarm instead",
        "Handlers/.*",
    ),
    Suppression(
        (NIST + "LambdaDLQ", "CKV_AWS_116"),
        "AWS::Lambda::Function",
        "nothing invokes them asynchronously but the clocks, whose next tick makes up for a lost "
        "one; events reach them through queues with dead-letter queues, states through retries",
        "Handlers/.*",
    ),
    Suppression(
        ("cfn-lint W3005",),
        "AWS::Lambda::Function",
        "CDK writes DependsOn for the function's role beside its policy; the role's is redundant, "
        "harmless, and not ours to leave out",
        "Handlers/.*",
    ),
    Suppression(
        ("cfn-lint W3005",),
        "AWS::StepFunctions::StateMachine",
        "CDK writes DependsOn for the machine's role beside its policy; the role's is redundant, "
        "harmless, and not ours to leave out",
    ),
    Suppression(
        ("@aws-cdk/aws-ec2:noSubnetRouteTableId",),
        IMPORTED,
        "only where config asks for someone else's VPC: nothing of ours writes a route into it",
        r"Vpc/TrainingSubnet\d",
    ),
    Suppression(
        ("AwsSolutions-SF1",),
        "AWS::StepFunctions::StateMachine",
        "the execution history is the log (kept 90 days), the runs table the record for good; the "
        "log group takes every error, and not each payload of months of waiting",
    ),
    Suppression(
        ("W3010",),
        "AWS::EC2::Subnet",
        "zones are the environment's own choice: capacity for GPUs differs by zone",
        "Vpc/.*",
    ),
    Suppression(
        (NIST + "VPCDefaultSecurityGroupClosed",),
        "AWS::EC2::VPC",
        "closing the default group takes a custom resource with a function and a role of its own; "
        "nothing of ours is ever in that group",
    ),
    Suppression(
        (NIST + "VPCNoUnrestrictedRouteToIGW",),
        "AWS::EC2::Route",
        "only where config asks for NAT: the subnet holds the NAT gateway and nothing else, and "
        "gives out no public address",
        r"Vpc/PublicSubnet\d/.*",
    ),
    Suppression(
        (NIST + "EC2RestrictedCommonPorts",),
        "AWS::EC2::SecurityGroupIngress",
        "the source is the group itself: EFA works only where all traffic among the hosts of the "
        "group is allowed, both ways",
        "TrainingGroup/SelfIngress",
    ),
    Suppression(
        (NIST + "EC2RestrictedCommonPorts", "Everstep-AllTrafficFromOthers"),
        "AWS::EC2::SecurityGroupIngress",
        "only where config asks for EFA to the file system: FSx refuses to make it unless its "
        "group and its clients' let all traffic between them through, both ways",
        r"(Training|Lustre)Group/Group/from \w+:ALL TRAFFIC",
    ),
    Suppression(
        (NIST + "IAMNoInlinePolicy",),
        "AWS::IAM::Policy",
        "the policy is one role's and lives and dies with it: a managed one could be attached to "
        "others, and could not be read beside its role",
    ),
    Suppression(
        (
            "AwsSolutions-IAM5[Resource::*]",
            "CKV_AWS_107",
            "CKV_AWS_108",
            "CKV_AWS_109",
            "CKV_AWS_111",
        ),
        "AWS::IAM::ManagedPolicy",
        "a permission boundary gives nothing: the resources are in the policies that it bounds, "
        "the actions are exactly those that they name",
        ".*Boundary/.*",
    ),
    Suppression(
        (NIST + "S3BucketReplicationEnabled",),
        "AWS::S3::Bucket",
        "checkpoints in another region would not help a run that trains in this one, and double "
        "the largest line of the bill after compute; S3 keeps copies in three zones, versions "
        "undo deletion",
        ".*Store/.*",
    ),
    Suppression(
        (NIST + "S3BucketReplicationEnabled",),
        "AWS::S3::Bucket",
        "what access logs tell of is in this region alone; S3 keeps copies in three zones, no role "
        "of ours may write or delete here, and they go after a year",
        "AccessLogs/.*",
    ),
    Suppression(
        (NIST + "S3DefaultEncryptionKMS",),
        "AWS::S3::Bucket",
        "S3 delivers access logs to no bucket whose default is SSE-KMS",
        "AccessLogs/.*",
    ),
    Suppression(
        ("CKV_AWS_18",),
        "AWS::S3::Bucket",
        "this is the bucket that access logs go to; logging it into itself would loop",
        "AccessLogs/.*",
    ),
    Suppression(
        ("Everstep-CurrentObjectsExpire",),
        "AWS::S3::Bucket",
        "access logs go after a year; no checkpoint lies here",
        "AccessLogs/.*",
    ),
    Suppression(
        (NIST + "DynamoDBInBackupPlan",),
        "AWS::DynamoDB::Table",
        "point-in-time recovery is on (35 days, any second) and the table is protected from "
        "deletion; a backup plan would add a vault and a role for less than that",
    ),
    Suppression(
        ("CKV_AWS_316",),
        "AWS::CodeBuild::Project",
        "docker build needs it; what is built is the source of this deploy, the role may push to "
        "one repository, and nobody's pull request starts it",
    ),
    Suppression(
        ("CKV_AWS_51",),
        "AWS::ECR::Repository",
        "tags are immutable but for one moving name, which jobs never get: a run's image is fixed "
        "when it is launched",
    ),
)


def plugin_of(rule: str) -> str:
    """Which tool's rule it is."""
    for prefix in ("AwsSolutions", "NIST.800.53.R5", "Everstep"):
        if rule.startswith(prefix + "-"):
            return prefix
    for start, tool in (("CKV", "checkov"), ("cfn-lint ", "cfn-lint"), ("@", "Annotation")):
        if rule.startswith(start):
            return tool
    return "CloudFormation-Validate"


IAM_LINT = {
    "RESOURCE_MISMATCH states:SendTask": "the service reference has no resource for it, the "
    "service evaluates the machine's ARN (aws-cdk PR 8486 tried it; refusals name the machine): "
    "narrower than the linter asks for",
    "RESOURCE_MISMATCH states:DescribeExecution": "the linter wants the ARNs of express "
    "executions too; ours are standard ones",
    "RESOURCE_MISMATCH states:DescribeStateMachineForExecution": "the same, of express and map "
    "runs",
    "RESOURCE_MISMATCH states:ListExecutions": "the linter wants the ARNs of map runs too; "
    "there are none",
    "RESOURCE_MISMATCH sagemaker:CreateTrainingJob": "the linter knows no training plans; AWS's "
    "AmazonSageMakerFullAccess grants it on their ARNs and their reserved capacity's",
    "RESOURCE_MISMATCH ec2:CreateNetworkInterface": "the linter wants every resource type in one "
    "ARN; the statement names all three",
    "UNKNOWN_CONDITION_FOR_ACTION Unknown condition kms:EncryptionContext:aws:logs:arn": "what "
    "CloudWatch Logs' own guide asks for in a key's policy; it covers DescribeKey by not applying",
    "UNKNOWN_CONDITION_FOR_ACTION Unknown condition s3:TlsVersion": "the bucket refuses s3:* below "
    "TLS 1.2, two actions of which do not know the key and are refused over plain HTTP alone",
    "MISMATCHED_TYPE Type mismatch: ArnLike requires a value of type Arn": "the same: an "
    "encryption context is text to the linter, and holds an ARN",
}
"""Findings of the IAM linter that stay, by issue and the start of what it is about."""
IAM_LINT_ELSEWHERE = {
    "RESOURCE_MISMATCH": "in a key's, bucket's, queue's or role's own policy the resource is that "
    "thing, whatever the action; a boundary gives nothing",
    "RESOURCE_STAR": 'in such a policy "*" is that thing; a boundary gives nothing',
}
"""Of policies that are no identity's, by issue."""
HADOLINT = {
    "DL3003": "the EFA installer wants to be run from its own folder, which the layer removes",
    "DL3008": "Ubuntu's packages have the versions of the base image's release: the base is what "
    "is pinned, by digest",
    "DL3064": 'no secret: the rule sees "token" in TOKENIZERS, a version',
}
"""Findings of hadolint that stay, on lines of containers/ that say so: nothing is ignored for a
whole file."""
