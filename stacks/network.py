"""VPC, endpoints and security groups in which training runs."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from everstep.contracts.names import image_log_group
from stacks.config import Config, Network
from stacks.config_rules import PUBLIC_MASK
from stacks.logs_key import LogsKey

TRAINING = "Training"
LUSTRE_PORTS = (ec2.Port.tcp(988), ec2.Port.tcp_range(1018, 1023))


class TrainingSecurityGroup(Construct):
    """Hosts of a job: EFA among themselves in both directions, 443 out, nothing else in.

    EFA wants an egress rule to the group itself, by group id. CDK drops such a rule where all
    outbound traffic is allowed, so outbound is closed and both directions are written out.
    """

    def __init__(self, scope: Construct, name: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, name)
        self.group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=vpc,
            allow_all_outbound=False,
            description="Everstep training hosts",
        )
        itself = self.group.security_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "SelfIngress",
            group_id=itself,
            ip_protocol="-1",
            source_security_group_id=itself,
            description="EFA: all traffic from this group",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "SelfEgress",
            group_id=itself,
            ip_protocol="-1",
            destination_security_group_id=itself,
            description="EFA: all traffic to this group",
        )
        self.group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services, through endpoints or NAT"
        )


class LustreSecurityGroup(Construct):
    """FSx for Lustre: its ports, among its servers, and both ways between them and training hosts.

    With EFA all traffic instead: FSx refuses to make the file system otherwise. Source: "File
    system access control with Amazon VPC" in the FSx for Lustre guide, 2026-11.
    """

    def __init__(
        self, scope: Construct, name: str, *, vpc: ec2.IVpc, training: ec2.SecurityGroup, efa: bool
    ) -> None:
        super().__init__(scope, name)
        self.group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=vpc,
            allow_all_outbound=False,
            description="Everstep FSx for Lustre",
        )
        for port in (ec2.Port.all_traffic(),) if efa else LUSTRE_PORTS:
            training.add_egress_rule(self.group, port, "Lustre")
            training.add_ingress_rule(self.group, port, "Lustre from its servers")
            self.group.add_ingress_rule(training, port, "Lustre from training hosts")
            self.group.add_egress_rule(training, port, "Lustre to training hosts")
            self.group.add_ingress_rule(self.group, port, "Lustre between servers")
            self.group.add_egress_rule(self.group, port, "Lustre between servers")


def only_from_here(stack: Stack, name: str) -> list[iam.PolicyStatement]:
    """An endpoint lets anyone through who has credentials: with keys of an account of one's own,
    data would leave by way of S3, internet or not. So this account's identities alone; layers of
    images lie in a bucket of ECR's (ECR guide, "Minimum Amazon S3 bucket permissions")."""
    ours = iam.PolicyStatement(
        sid="OwnAccount",
        principals=[iam.AnyPrincipal()],
        actions=["*"],
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": stack.account}},
    )
    layers = iam.PolicyStatement(
        sid="ImageLayers",
        principals=[iam.AnyPrincipal()],
        actions=["s3:GetObject"],
        resources=[
            f"arn:{stack.partition}:s3:::prod-{stack.region}-starport-layer-bucket/*",
        ],
    )
    return [ours, layers] if name == "S3" else [ours]


class NetworkStack(Stack):
    """Zones come from config: no look-up, so that synthesis needs no credentials."""

    def __init__(
        self, scope: Construct, name: str, *, env_name: str, config: Config, **kwargs: object
    ) -> None:
        self._zones = config.network.zones
        super().__init__(scope, name, **kwargs)  # type: ignore[arg-type]
        net = config.network
        self.removal = RemovalPolicy.RETAIN if config.retain else RemovalPolicy.DESTROY
        self.logs_key = LogsKey(
            self,
            "LogsKey",
            # CloudFormation names the group of flow logs, after the stack.
            groups=[f"{self.stack_name}-*", image_log_group(env_name, "trainer")],
            removal=self.removal,
        ).key
        self.vpc = self._import(config) if net.vpc_id else self._make(config)
        chosen = ec2.SubnetSelection(subnet_group_name=TRAINING)
        self.training_subnets = self.vpc.select_subnets(subnet_group_name=TRAINING).subnets
        self.training = TrainingSecurityGroup(self, "TrainingGroup", vpc=self.vpc).group
        self.lustre = LustreSecurityGroup(
            self,
            "LustreGroup",
            vpc=self.vpc,
            training=self.training,
            efa=config.file_system is not None and config.file_system.efa,
        ).group
        if not net.vpc_id:
            self._endpoints(net, chosen)
            self._flow_logs(config)

    def _make(self, config: Config) -> ec2.IVpc:
        net = config.network
        return ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(net.cidr),
            max_azs=len(net.zones),
            nat_gateways=net.nat_gateways,
            # Closing the default group takes a custom resource with a function of its own; nothing
            # of ours is ever in that group.
            restrict_default_security_group=False,
            subnet_configuration=self._subnets(net.nat_gateways > 0, net.training_mask),
        )

    def _import(self, config: Config) -> ec2.IVpc:
        """Someone else's: security groups are added to it; endpoints, routes and flow logs stay
        its owner's. From config alone: no look-up."""
        net = config.network
        return ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=net.vpc_id or "",
            vpc_cidr_block=net.cidr,
            availability_zones=net.zones,
            isolated_subnet_ids=[net.subnet_ids[zone] for zone in net.zones],
            isolated_subnet_names=[TRAINING],
        )

    def subnet_in(self, zone: str) -> ec2.ISubnet:
        """The training subnet of a zone; config has checked that there is one."""
        return next(s for s in self.training_subnets if s.availability_zone == zone)

    @property
    def availability_zones(self) -> list[str]:
        """Where CDK would ask AWS for the account's zones."""
        return self._zones

    def _subnets(self, nat: bool, mask: int) -> list[ec2.SubnetConfiguration]:
        kind = ec2.SubnetType.PRIVATE_WITH_EGRESS if nat else ec2.SubnetType.PRIVATE_ISOLATED
        training = ec2.SubnetConfiguration(name=TRAINING, subnet_type=kind, cidr_mask=mask)
        public = ec2.SubnetConfiguration(
            name="Public",
            subnet_type=ec2.SubnetType.PUBLIC,
            cidr_mask=PUBLIC_MASK,
            map_public_ip_on_launch=False,
        )
        return [training, public] if nat else [training]

    def _endpoints(self, net: Network, subnets: ec2.SubnetSelection) -> None:
        made: dict[str, ec2.GatewayVpcEndpoint | ec2.InterfaceVpcEndpoint] = {}
        for name, service in (
            ("S3", ec2.GatewayVpcEndpointAwsService.S3),
            ("DynamoDb", ec2.GatewayVpcEndpointAwsService.DYNAMODB),
        ):
            made[name] = self.vpc.add_gateway_endpoint(
                f"{name}Endpoint", service=service, subnets=[subnets]
            )
        if net.interface_endpoints:
            group = ec2.SecurityGroup(
                self,
                "EndpointGroup",
                vpc=self.vpc,
                allow_all_outbound=False,
                description="Everstep interface endpoints",
            )
            group.add_ingress_rule(self.training, ec2.Port.tcp(443), "HTTPS from training hosts")
        for name in net.interface_endpoints:
            made[name] = self.vpc.add_interface_endpoint(
                f"{name.title().replace('.', '').replace('-', '')}Endpoint",
                service=ec2.InterfaceVpcEndpointAwsService(name),
                subnets=subnets,
                security_groups=[group],
                open=False,
            )
        if net.no_internet:
            for name, endpoint in made.items():
                for statement in only_from_here(self, name):
                    endpoint.add_to_policy(statement)

    def _flow_logs(self, config: Config) -> None:
        group = logs.LogGroup(
            self,
            "FlowLogGroup",
            retention=logs_retention(config.log_retention_days),
            encryption_key=self.logs_key,
            removal_policy=self.removal,
        )
        role = iam.Role(
            self, "FlowLogRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com")
        )
        self.vpc.add_flow_log(
            "FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role)
        )


_NAMES = {
    1: "ONE_DAY",
    3: "THREE_DAYS",
    5: "FIVE_DAYS",
    7: "ONE_WEEK",
    14: "TWO_WEEKS",
    30: "ONE_MONTH",
    60: "TWO_MONTHS",
    90: "THREE_MONTHS",
    120: "FOUR_MONTHS",
    150: "FIVE_MONTHS",
    180: "SIX_MONTHS",
    365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS",
    545: "EIGHTEEN_MONTHS",
    731: "TWO_YEARS",
    1096: "THREE_YEARS",
    1827: "FIVE_YEARS",
    3653: "TEN_YEARS",
}


def logs_retention(days: int) -> logs.RetentionDays:
    """``config`` has checked that the service knows the number."""
    return logs.RetentionDays[_NAMES[days]]
