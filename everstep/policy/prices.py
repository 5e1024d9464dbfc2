"""What an instance-hour costs before anybody has an account: public figures, each with its date.

For plans only. What a run has cost is counted with ``prices_usd`` of config, which goes before this
table wherever it names a type.
"""

from typing import NamedTuple

READ = "2026-11"
ON_DEMAND_OF = (
    "SageMaker's list price, us-west-2, effective 2026-09-01 (AWS price list, as a public "
    "workshop's table of rates copies it)"
)
DERIVED_OF = (
    "EC2's on-demand price of 2026-01-21 (instances.vantage.sh) × {ratio}: SageMaker's surcharge "
    "on {like}; not confirmed"
)
SPOT_OF = (
    "EC2's spot price in the zones of us-east-1, us-east-2 and us-west-2 (SkyPilot catalog v8, "
    "commit 00148f2); SageMaker bills its own, never more than on demand"
)
PLAN_OF = (
    "EC2 Capacity Blocks' rate in US regions, 2026-07-22 (aws.amazon.com/ec2/capacityblocks/"
    "pricing); SearchTrainingPlanOfferings names your plan's"
)


SPOT_DATE = "EC2's market, SkyPilot catalog v8"
PLAN_DATE = "EC2 Capacity Blocks, 2026-07-22"


class Price(NamedTuple):
    """USD an instance-hour. None: no figure was found."""

    on_demand: float
    confirmed: bool = True
    """SageMaker's own figure; else EC2's times a ratio."""
    plan: float | None = None
    spot: tuple[float, float] | None = None
    """Lowest and highest zone."""


P_RATIO, G_RATIO = 1.15, 1.25
"""SageMaker ÷ EC2 of p4d and p5 (25.251 ÷ 21.958, 63.296 ÷ 55.04); of g5 and g6's 48xlarge."""

PRICES: dict[str, Price] = {
    "ml.m5.large": Price(0.115),
    "ml.m5.xlarge": Price(0.23),
    "ml.m5.2xlarge": Price(0.461),
    "ml.m5.4xlarge": Price(0.922),
    "ml.c5.2xlarge": Price(0.408),
    "ml.g5.xlarge": Price(1.41),
    "ml.g5.2xlarge": Price(1.52),
    "ml.g5.4xlarge": Price(2.03),
    "ml.g5.8xlarge": Price(3.06),
    "ml.g5.12xlarge": Price(7.09),
    "ml.g5.24xlarge": Price(10.18),
    "ml.g5.48xlarge": Price(20.36),
    "ml.g6.xlarge": Price(1.127),
    "ml.g6.2xlarge": Price(1.222),
    "ml.g6.4xlarge": Price(1.654),
    "ml.g6.12xlarge": Price(5.752),
    "ml.g6.24xlarge": Price(8.344),
    "ml.g6.48xlarge": Price(16.688),
    "ml.g6e.12xlarge": Price(10.49264 * G_RATIO, confirmed=False),
    "ml.g6e.24xlarge": Price(15.06559 * G_RATIO, confirmed=False),
    "ml.g6e.48xlarge": Price(30.13118 * G_RATIO, confirmed=False),
    "ml.p4d.24xlarge": Price(25.251286, plan=11.80, spot=(6.04, 21.85)),
    "ml.p4de.24xlarge": Price(27.44705 * P_RATIO, confirmed=False, plan=17.712, spot=(8.65, 11.01)),
    "ml.p5.4xlarge": Price(6.88 * P_RATIO, confirmed=False, plan=5.191),
    "ml.p5.48xlarge": Price(63.296, plan=41.528, spot=(11.25, 55.04)),
    "ml.p5en.48xlarge": Price(63.296 * P_RATIO, confirmed=False, plan=54.92),
    "ml.p6-b200.48xlarge": Price(113.9328 * P_RATIO, confirmed=False, plan=98.84),
    "ml.p6-b300.48xlarge": Price(142.416 * P_RATIO, confirmed=False, plan=112.32),
}


def on_demand_source(name: str) -> str:
    """Of a type in the table."""
    if PRICES[name].confirmed:
        return ON_DEMAND_OF
    ratio, like = (P_RATIO, "p4d and p5") if name.startswith("ml.p") else (G_RATIO, "g5 and g6")
    return DERIVED_OF.format(ratio=ratio, like=like)


def on_demand_date(name: str) -> str:
    """In a few words."""
    if PRICES[name].confirmed:
        return "list price, 2026-09-01"
    return "derived from EC2's of 2026-01-21"
