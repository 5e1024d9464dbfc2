"""Where Everstep can be: regions by partition, and what is missing there.

Sources, 2026-11: botocore's endpoints, with which a test compares (SageMaker, and all else that the
stacks use, is in every one of these); Amazon FSx in China ("Scratch 1 and Scratch 2 are not
available", docs.amazonaws.cn); Powertools' list of layers for GovCloud and China.
"""

COMMERCIAL = (
    "af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 "
    "ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 "
    "ap-southeast-6 ap-southeast-7 ca-central-1 ca-west-1 eu-central-1 eu-central-2 eu-north-1 "
    "eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 "
    "mx-central-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2"
)
REGIONS: dict[str, str] = {
    **dict.fromkeys(COMMERCIAL.split(), "aws"),
    **dict.fromkeys(("cn-north-1", "cn-northwest-1"), "aws-cn"),
    **dict.fromkeys(("us-gov-east-1", "us-gov-west-1"), "aws-us-gov"),
}
"""Partition by region."""

POWERTOOLS_ACCOUNTS = {
    **dict.fromkeys(COMMERCIAL.split(), "017000801446"),
    "cn-north-1": "498634801083",
    "us-gov-west-1": "165093116878",
    "us-gov-east-1": "165087284144",
}
"""Whose Powertools layers a region can use: Lambda takes no layer of another partition. Where none
is listed (cn-northwest-1), publish the layer in your own account."""

NO_BUDGETS = ("aws-cn", "aws-us-gov")
"""Partitions in which a budget cannot be made by a stack: refused, with that said."""
NO_SCRATCH = ("aws-cn",)
NO_MODEL_GROUPS = ("aws-cn",)
"""CloudFormation has no AWS::SageMaker::ModelPackageGroup there (CDK's own data of types):
teams have no group, and a run that asks for registration is exported, and told so."""
NO_INTELLIGENT_TIERING = ("aws-cn", "aws-us-gov")
"""Not listed for these partitions where we looked: refused rather than tried."""


def partition_of(region: str) -> str:
    """``aws`` for a region that is not known: the config rule says so."""
    return REGIONS.get(region, "aws")
