"""From an environment's name to stacks: what app.py runs."""

import sys

from aws_cdk import App, Environment, Tags, Validations
from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks

from everstep.contracts.names import stack_name
from everstep.contracts.problems import describe
from stacks.access import AccessStack
from stacks.acknowledge import acknowledge
from stacks.config import Config, load
from stacks.control_plane import ControlPlaneStack
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.proof.rules import EverstepChecks
from stacks.storage import StorageStack

DEFAULT_ENV = "local"
"""Its account is AWS's documentation account: a deploy that forgot ``-c env=…`` harms nothing."""


class EverstepApp:
    """The stacks of one environment."""

    def __init__(self, app: App, env_name: str, config: Config) -> None:
        where = Environment(account=config.account, region=config.region)

        def common(part: str, what: str) -> dict[str, object]:
            return {
                "stack_name": stack_name(env_name, part),
                "env": where,
                "description": f"Everstep {env_name}: {what}",
                "termination_protection": config.retain,
            }

        self.network = NetworkStack(
            app,
            stack_name(env_name, "network"),
            env_name=env_name,
            config=config,
            **common("network", "VPC, endpoints, security groups, flow logs and their key"),
        )
        self.storage = StorageStack(
            app,
            stack_name(env_name, "storage"),
            config=config,
            lustre_group=self.network.lustre,
            lustre_subnet=self.network.subnet_in(config.file_system_zone),
            **common("storage", "key, buckets, file system"),
        )
        self.images = ImagesStack(
            app,
            stack_name(env_name, "images"),
            env_name=env_name,
            config=config,
            key=self.storage.key,
            logs_key=self.network.logs_key,
            records=self.storage.output,
            **common("images", "registries"),
        )
        self.control_plane = ControlPlaneStack(
            app,
            stack_name(env_name, "control-plane"),
            env_name=env_name,
            config=config,
            network=self.network,
            storage=self.storage,
            images=self.images,
            **common("control-plane", "table, handlers, state machines, events, alarms"),
        )
        self.access = AccessStack(
            app,
            stack_name(env_name, "access"),
            env_name=env_name,
            config=config,
            control_plane=self.control_plane,
            **common("access", "roles for people and data preparation"),
        )
        self.observability = ObservabilityStack(
            app,
            stack_name(env_name, "observability"),
            env_name=env_name,
            config=config,
            control_plane=self.control_plane,
            **common("observability", "dashboards, queries, alarms on storage, budget"),
        )
        self.stacks = (
            self.network,
            self.storage,
            self.images,
            self.control_plane,
            self.access,
            self.observability,
        )
        for key, value in config.tags.items():
            Tags.of(app).add(key, value)
        acknowledge(self.stacks)


def add_checks(app: App) -> None:
    """cdk-nag's packs and our own: synthesis fails on a finding that has no reason."""
    packs = (AwsSolutionsChecks(app), NIST80053R5Checks(app), EverstepChecks(app))
    Validations.of(app).add_plugins(*packs)


def main() -> int:
    """Exit 1 with every problem of the config, never a traceback for it."""
    app = App()
    env_name = str(app.node.try_get_context("env") or DEFAULT_ENV)
    config, problems = load(env_name)
    if config is None:
        print(describe(problems, f"configuration {env_name!r}"), file=sys.stderr)
        return 1
    EverstepApp(app, env_name, config)
    add_checks(app)
    app.synth()
    return 0
