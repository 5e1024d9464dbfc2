"""What config can ask for and no environment of ours does, synthesised for docs/security.md.

``python -m stacks.proof.options cdk.out/options``. The tests read the same configs.
"""

import json
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from aws_cdk import App

from everstep.contracts.problems import describe
from stacks.assembly import EverstepApp, add_checks
from stacks.config import CONFIG_FOLDER, ROOT, check
from stacks.config_rules import TRAINING_ENDPOINTS

Raw = dict[str, Any]


def _open(raw: Raw) -> None:
    """NAT, EFA and export of the file system, and for one team a way into its containers."""
    raw["network"] |= {"nat_gateways": 1, "training_mask": 19}
    raw["file_system"] = {
        "capacity_gib": 19200, "throughput_mbps_per_tib": 250, "efa": True, "export": True,
        "checkpoints": True,
    }  # fmt: skip
    raw["teams"][0]["remote_debug"] = True


def _closed(raw: Raw) -> None:
    """No internet, and a scratch file system."""
    raw["network"] |= {"no_internet": True, "interface_endpoints": list(TRAINING_ENDPOINTS)}
    raw["file_system"] = {"deployment": "SCRATCH_2", "capacity_gib": 4800}
    raw |= {"removal": "destroy"}


def _guest(raw: Raw) -> None:
    """Someone else's VPC, with a tiered file system in its second zone."""
    zones = raw["network"]["zones"]
    subnets = {zone: f"subnet-0123456789abcde{zone[-1]}0" for zone in zones}
    raw["network"] |= {
        "vpc_id": "vpc-0123456789abcdef0", "subnet_ids": subnets, "interface_endpoints": [],
    }  # fmt: skip
    raw["file_system"] = {
        "storage": "INTELLIGENT_TIERING", "throughput_mbps": 4000, "efa": True, "checkpoints": True,
        "zone": zones[1],
    }  # fmt: skip
    raw["planned"]["zone"] = zones[1]


OPTIONS: dict[str, Callable[[Raw], None]] = {"open": _open, "closed": _closed, "guest": _guest}
"""By the name of an environment that has them: changes to prod's config."""


def asked_for(option: str) -> Raw:
    """Prod's config with an option's changes."""
    raw = tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text(encoding="utf-8"))
    OPTIONS[option](raw)
    return raw


def main(arguments: list[str]) -> int:
    """One assembly of them all. Exit 1 where a config is refused or a finding has no reason."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    # As the command line has it: paths are what the page names resources by.
    context["aws:cdk:enable-path-metadata"] = True
    app = App(outdir=arguments[0], context=context, analytics_reporting=False)
    for option in OPTIONS:
        config, problems = check(asked_for(option))
        if config is None:
            print(describe(problems, f"configuration {option!r}"), file=sys.stderr)
            return 1
        EverstepApp(app, option, config)
    add_checks(app)
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
