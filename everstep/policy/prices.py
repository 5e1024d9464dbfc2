"""What an instance-hour costs before anybody has an account: public figures, each with its date.

For plans only. What a run has cost is counted with ``prices_usd`` of config, which goes before this
table wherever it names a type.
"""

from typing import NamedTuple

READ = "2026-11"
ON_DEMAND_OF = (
    "SageMaker's list price in us-east-1, 2026-09-27 (AWS price list's AmazonSageMaker offer, as "
    "a public notebook toolkit, sagemaker_env.py, copies it; a table of us-west-2 agrees)"
)
"""After AWS's cut of June 2025 (P4 by a third, P5 by up to 45 %, usage.ai 2026-06-30): tables that
say 113 USD for a p5.48xlarge are older."""
DERIVED_OF = (
    "EC2's on-demand price of 2026-01-21 (instances.vantage.sh) × {ratio}: SageMaker's surcharge "
    "on p4, p5 and trn1; not confirmed"
)
SPOT_OF = (
    "EC2's spot price in the zones of us-east-1, us-east-2 and us-west-2 (SkyPilot catalog v8, "
    "commit 00148f2); SageMaker bills its own, never more than on demand"
)
PLAN_OF = (
    "EC2 Capacity Blocks' rate in US regions, 2026-07-22 (aws.amazon.com/ec2/capacityblocks/"
    "pricing); SearchTrainingPlanOfferings names your plan's"
)


LUSTRE_SCRATCH = 0.14
"""USD a GiB and month, FSx for Lustre SCRATCH_2."""
LUSTRE_OF = "a user's figure of 2026-11 for SCRATCH_2 in us-east-1, not confirmed (docs/cost.md)"
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


RATIO = 1.15
"""SageMaker ÷ EC2: p4d 25.2513 ÷ 21.958, p5 63.296 ÷ 55.04, trn1 24.73 ÷ 21.50."""

PRICES: dict[str, Price] = {
    "ml.m5.large": Price(0.115),
    "ml.m5.xlarge": Price(0.23),
    "ml.m5.2xlarge": Price(0.461),
    "ml.m5.4xlarge": Price(0.922),
    "ml.m5.12xlarge": Price(2.765),
    "ml.m5.24xlarge": Price(5.53),
    "ml.c5.2xlarge": Price(0.408),
    "ml.c5.9xlarge": Price(1.836),
    "ml.c5.18xlarge": Price(3.672),
    "ml.g5.xlarge": Price(1.41),
    "ml.g5.2xlarge": Price(1.52),
    "ml.g5.4xlarge": Price(2.03),
    "ml.g5.8xlarge": Price(3.06),
    "ml.g5.12xlarge": Price(7.09),
    "ml.g5.16xlarge": Price(5.12),
    "ml.g5.24xlarge": Price(10.18),
    "ml.g5.48xlarge": Price(20.36),
    "ml.g6.xlarge": Price(1.127),
    "ml.g6.2xlarge": Price(1.222),
    "ml.g6.4xlarge": Price(1.654),
    "ml.g6.8xlarge": Price(2.518),
    "ml.g6.12xlarge": Price(5.752),
    "ml.g6.16xlarge": Price(4.246),
    "ml.g6.24xlarge": Price(8.344),
    "ml.g6.48xlarge": Price(16.688),
    "ml.g6e.xlarge": Price(2.61),
    "ml.g6e.2xlarge": Price(2.8),
    "ml.g6e.4xlarge": Price(3.76),
    "ml.g6e.8xlarge": Price(5.66),
    "ml.g6e.12xlarge": Price(13.12),
    "ml.g6e.16xlarge": Price(9.47),
    "ml.g6e.24xlarge": Price(18.83),
    "ml.g6e.48xlarge": Price(37.66),
    "ml.p4d.24xlarge": Price(25.251286, plan=11.80, spot=(6.04, 21.85)),
    "ml.p4de.24xlarge": Price(31.5641, plan=17.712, spot=(8.65, 11.01)),
    "ml.p5.4xlarge": Price(7.912, plan=5.191),
    "ml.p5.48xlarge": Price(63.296, plan=41.528, spot=(11.25, 55.04)),
    "ml.p5en.48xlarge": Price(63.296 * RATIO, confirmed=False, plan=54.92),
    "ml.p6-b200.48xlarge": Price(113.9328 * RATIO, confirmed=False, plan=98.84),
    "ml.p6-b300.48xlarge": Price(142.416 * RATIO, confirmed=False, plan=112.32),
    "ml.trn1.2xlarge": Price(1.54),
    "ml.trn1.32xlarge": Price(24.73),
}
"""No dated public figure was found of p5e, trn1n and trn2: plans say so, and sum nothing up."""


def on_demand_source(name: str) -> str:
    """Of a type in the table."""
    return ON_DEMAND_OF if PRICES[name].confirmed else DERIVED_OF.format(ratio=RATIO)


def on_demand_date(name: str) -> str:
    """In a few words."""
    if PRICES[name].confirmed:
        return "list price, 2026-09-27"
    return "derived from EC2's of 2026-01-21"
