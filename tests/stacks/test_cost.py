"""The cost at rest, by hand for prod, and what makes it change."""

import math
import re
from pathlib import Path

from everstep.cli.stack_cost import BY_USE, FREE, PRICED, UNKNOWN, Line, at_rest
from stacks.config import ROOT

from .conftest import Synthesised, synthesise, unpriced


def _lines(found: Synthesised) -> dict[str, Line]:
    return {
        f"{line.kind} {line.basis}": line
        for line in at_rest(iter(found.templates.values()))
        if line.monthly_usd
    }


def test_prod_at_rest_is_what_it_is_by_hand(prod: Synthesised) -> None:
    lines = at_rest(iter(prod.templates.values()))
    of = {line.kind: line.monthly_usd for line in reversed(lines)}
    endpoints, zones = len(prod.config.network.interface_endpoints), 3
    assert of["FSx::FileSystem"] == 1200 * 0.210
    assert round(of["EC2::VPCEndpoint"], 2) == round(endpoints * zones * 0.01 * 730, 2)
    assert of["KMS::Key"] == 3
    assert of["CloudWatch::Dashboard"] == 6
    assert [line.monthly_usd for line in lines] == sorted(
        (line.monthly_usd for line in lines), reverse=True
    )


def test_the_docs_say_the_sums(prod: Synthesised, tmp_path: Path) -> None:
    def sum_of(found: Synthesised) -> str:
        return f"{math.fsum(x.monthly_usd for x in at_rest(iter(found.templates.values()))):.0f}"

    def said(page: str, words: str) -> tuple[str, ...]:
        (found,) = re.findall(words, (ROOT / page).read_text(encoding="utf-8"))
        return found if isinstance(found, tuple) else (found,)

    dev, whole = sum_of(synthesise("dev", tmp_path / "dev")), sum_of(prod)
    row = r"\*\*sum\*\* \| \| \*\*0\*\* \| \*\*≈ (\d+)\*\* \| \*\*≈ (\d+)\*\*"
    assert said("docs/cost.md", row) == (dev, whole)
    assert said("README.md", r"about (\d+) USD a month as .* about (\d+) as") == (dev, whole)
    assert said("docs/comparison.md", r"about (\d+) USD a month") == (dev,)
    alarms = r"CloudWatch alarms \| 0.10 each \| 0 \| \S+ \| (\S+) \|"
    of = {line.kind: line.monthly_usd for line in at_rest(iter(prod.templates.values()))}
    assert said("docs/cost.md", alarms) == (f"{of['CloudWatch::Alarm']:.2f}",)


def test_nat_and_a_larger_file_system_cost_more(prod: Synthesised, more: Synthesised) -> None:
    before, after = _lines(prod), _lines(more)
    assert round(after["EC2::NatGateway 0.045/h, and by GB"].monthly_usd, 2) == 32.85
    assert round(after["EC2::EIP 0.005/h"].monthly_usd, 2) == 3.65
    assert not {line for line in before if line.startswith(("EC2::NatGateway", "EC2::EIP"))}
    lustre = "FSx::FileSystem 0.21/GiB"
    assert after[lustre].monthly_usd == before[lustre].monthly_usd * 16


def test_every_type_of_ours_is_priced_by_use_or_free_and_so_once(
    prod: Synthesised, more: Synthesised
) -> None:
    assert unpriced(prod) == unpriced(more) == set()
    listed = [*PRICED, *BY_USE, *FREE]
    assert len(listed) == len(set(listed))


def test_a_type_without_a_price_is_said_not_dropped() -> None:
    (line,) = at_rest(iter([{"Resources": {"A": {"Type": "AWS::MediaLive::Channel"}}}]))
    assert line == Line("MediaLive::Channel", 1, UNKNOWN, 0.0)
