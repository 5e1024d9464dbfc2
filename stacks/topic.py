"""Where runs and alarms tell people."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct


class NoticeTopic(Construct):
    """A topic policy replaces SNS's default: whoever publishes is named, here or in its role."""

    def __init__(
        self, scope: Construct, name: str, *, title: str, key: kms.IKey, email: str | None
    ) -> None:
        super().__init__(scope, name)
        self.topic = sns.Topic(self, "Topic", display_name=title, master_key=key, enforce_ssl=True)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        if email:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
