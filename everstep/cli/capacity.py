"""``everstep capacity``: training plans on offer over regions and zones. It never buys one."""

import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from everstep.cli.cloud import error_code
from everstep.cli.errors import fail
from everstep.cli.options import Env, Json
from everstep.cli.output import emit, out, say
from everstep.cli.prices import named_env, prices
from everstep.cli.spec_file import read_json
from everstep.contracts.check import check_spec
from everstep.contracts.instances import RESERVABLE
from everstep.contracts.problems import describe
from everstep.policy.offerings import (
    Offering,
    Order,
    Wish,
    days_for,
    offering_of,
    plan_name,
    purchase_command,
    ranked,
    spec_lines,
    wish_problems,
)
from everstep.policy.quota import PLANS, SERVICE_CODE, pool_quota, reserved_quota, usage_quota

AT_ONCE = 8
ALL = "all"


class Found(NamedTuple):
    """What one region said."""

    region: str
    offerings: list[Offering]
    refusal: str | None = None


def capacity(
    spec: Annotated[
        Path | None, typer.Argument(help="RunSpec as JSON: its types, nodes and run time.")
    ] = None,
    instance_type: Annotated[str | None, typer.Option(help="Where no spec is given.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Instances of the plan.")] = None,
    days: Annotated[
        int | None, typer.Option(help="Whole days; of a spec: as many as its longest job needs.")
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(help="Where to search, more than once; 'all'. Absent: the session's."),
    ] = None,
    after: Annotated[datetime | None, typer.Option(help="Start then or later, UTC.")] = None,
    before: Annotated[datetime | None, typer.Option(help="End before, UTC.")] = None,
    by: Annotated[Order, typer.Option(help="What comes first.")] = "start",
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Training plans on offer, ranked, with what to write into a spec; and the quotas held there.

    Nothing is bought: the command that would is printed."""
    if after is not None and before is not None and _utc(after) >= _utc(before):
        fail(f"--after {after:%F %T} is not before --before {before:%F %T}", "the other way round")
    known = prices(named_env(env))
    wishes = _wishes(spec, instance_type, nodes, days)
    session = boto3.Session()
    regions, named = _regions(session, region or [])
    reports = []
    for wish in wishes:
        found = _search(session, regions, wish, after, before)
        offers = ranked((x for one in found for x in one.offerings), by)
        looked = [one.region for one in found if named or one.offerings]
        report = {
            **wish._asdict(),
            "on_demand_usd_per_hour": known.get(wish.instance_type),
            "offerings": [_row(session, offer, wish) for offer in offers],
            "not_searched": {one.region: one.refusal for one in found if one.refusal},
            "quotas": {name: _quotas(session, name, wish.instance_type) for name in looked},
        }
        reports.append(report)
    if as_json:
        emit(reports)
        return
    for report in reports:
        _show(report, len(regions))


def _wishes(path: Path | None, kind: str | None, nodes: int | None, days: int | None) -> list[Wish]:
    if (path is None) == (kind is None):
        fail("say what to look for", "everstep capacity SPEC, or --instance-type, --nodes, --days")
    if path is None:
        assert kind is not None
        if nodes is None or days is None:
            fail("--instance-type needs --nodes and --days", "for example --nodes 4 --days 7")
        wishes = [Wish(kind, nodes, days)]
    else:
        checked, problems = check_spec(read_json(path))
        if checked is None:
            fail(describe(problems, f"run spec {path}"), "mend these and run the command again")
        least = days_for(checked.stop.max_runtime_hours)
        places = {(x.instance_type, nodes or x.nodes) for x in checked.compute}
        wishes = [Wish(k, n, days or least) for k, n in sorted(places) if k in RESERVABLE]
        if not wishes:
            named = ", ".join(sorted({x.instance_type for x in checked.compute}))
            fail(f"no training plan holds {named}", f"of {', '.join(sorted(RESERVABLE))}")
    problems = [problem for wish in wishes for problem in wish_problems(wish)]
    if problems:
        fail(describe(problems, "search"), "mend these and search again")
    return wishes


def _regions(session: boto3.Session, asked: list[str]) -> tuple[list[str], bool]:
    """Where to search, and whether a person named each."""
    own = session.region_name
    if not asked:
        if own is None:
            fail("no region is set", "--region us-east-1, or AWS_REGION")
        return [own], True
    known = session.get_available_regions(
        "sagemaker", session.get_partition_for_region(own or "us-east-1")
    )
    if ALL in asked:
        return list(known), False
    for name in asked:
        if name not in known:
            fail(f"--region {name!r} has no SageMaker", f"{ALL}, or of {', '.join(known)}")
    return list(dict.fromkeys(asked)), True


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=time.tzinfo or UTC)


def _search(
    session: boto3.Session,
    regions: list[str],
    wish: Wish,
    after: datetime | None,
    before: datetime | None,
) -> list[Found]:
    """Regions beside each other; what one says does not stop the others."""
    request: dict[str, Any] = {
        "InstanceType": wish.instance_type,
        "InstanceCount": wish.nodes,
        "DurationHours": wish.days * 24,
        "TargetResources": ["training-job"],
    }
    for name, time in (("StartTimeAfter", after), ("EndTimeBefore", before)):
        if time is not None:
            request[name] = _utc(time)
    clients = [(name, session.client("sagemaker", region_name=name)) for name in regions]
    found = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {pool.submit(_ask, name, client, request): name for name, client in clients}
        for future in as_completed(asked):
            found.append(one := future.result())
            if len(regions) > 1:
                what = one.refusal or f"{len(one.offerings)} offerings"
                say(f"{wish.instance_type} × {wish.nodes}  {one.region}: {what}")
    return sorted(found, key=lambda one: regions.index(one.region))


def _ask(region: str, client: Any, request: dict[str, Any]) -> Found:
    try:
        rows = client.search_training_plan_offerings(**request)["TrainingPlanOfferings"]
    except ClientError as error:
        return Found(region, [], f"{error_code(error)}: {error.response['Error'].get('Message')}")
    except BotoCoreError as error:
        return Found(region, [], str(error))
    offers = [offer for row in rows if (offer := offering_of(region, row)) is not None]
    return Found(region, offers)


def _row(session: boto3.Session, offer: Offering, wish: Wish) -> dict[str, Any]:
    partition = session.get_partition_for_region(offer.region)
    return {
        "region": offer.region,
        "zones": [x.zone for x in offer.segments],
        "blocks": [
            {"zone": x.zone, "start": _iso(x.start), "end": _iso(x.end)} for x in offer.segments
        ],
        "instances": offer.instances,
        "hours": offer.hours,
        "usable_hours": offer.usable_hours,
        "longest_job_hours": offer.longest_job_hours,
        "fee": offer.fee,
        "currency": offer.currency,
        "fee_per_usable_instance_hour": offer.fee_per_usable_hour,
        "offering_id": offer.id,
        "plan_name": plan_name(offer),
        "purchase_command": purchase_command(offer),
        "spec": spec_lines(offer, partition, _account(session), wish.nodes),
    }


def _account(session: boto3.Session) -> str:
    """For the ARN that the plan will have; a word to replace where it cannot be asked for."""
    try:
        return str(session.client("sts").get_caller_identity()["Account"])
    except (ClientError, BotoCoreError):
        return "ACCOUNT"


def _quotas(session: boto3.Session, region: str, kind: str) -> dict[str, float | None] | str:
    """By name; None for one that AWS does not list. Applied values over defaults."""
    names = [
        usage_quota(kind, "on_demand"),
        usage_quota(kind, "spot"),
        pool_quota(kind),
        reserved_quota(kind),
        PLANS,
    ]
    held: dict[str, float | None] = dict.fromkeys(names)
    client = session.client("service-quotas", region_name=region)
    try:
        for call in ("list_aws_default_service_quotas", "list_service_quotas"):
            pages = client.get_paginator(call).paginate(
                ServiceCode=SERVICE_CODE, PaginationConfig={"PageSize": 100}
            )
            for quota in (q for page in pages for q in page["Quotas"]):
                if quota["QuotaName"] in held:
                    held[quota["QuotaName"]] = quota["Value"]
    except (ClientError, BotoCoreError) as error:
        return f"cannot be looked up: {error}"
    return held


def _iso(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="minutes")


def _show(report: dict[str, Any], regions: int) -> None:
    offers = report["offerings"]
    searched = regions - len(report["not_searched"])
    out.print(
        f"{report['instance_type']} × {report['nodes']} for {report['days']} days: "
        f"{len(offers)} offerings in {searched} of {regions} regions",
        markup=False,
    )
    for number, offer in enumerate(offers, 1):
        _show_offer(number, offer)
    price = report["on_demand_usd_per_hour"]
    if offers and price is not None:
        out.print(f"on demand: {price} USD an instance-hour (prices_usd in config)", markup=False)
    for region, why in report["not_searched"].items():
        out.print(f"{region}: not searched: {why}", markup=False)
    for region, held in report["quotas"].items():
        if isinstance(held, str):
            out.print(f"{region}: quotas {held}", markup=False)
            continue
        for name, value in held.items():
            shown = "not listed" if value is None else f"{value:g}"
            out.print(f"{region}: {name}: {shown}", markup=False)
    if not offers:
        say("no offering: other --days or --nodes, a later --before, --region all")


def _show_offer(number: int, offer: dict[str, Any]) -> None:
    fee, hour = offer["fee"], offer["fee_per_usable_instance_hour"]
    money = "fee not named" if fee is None else f"{fee:,.2f} {offer['currency']} at once"
    each = "" if hour is None else f", {hour:.2f} a usable instance-hour"
    out.print(f"{number:>3}  {offer['blocks'][0]['start']}  {offer['region']}", markup=False)
    for block in offer["blocks"]:
        out.print(f"     {block['zone']}: {block['start']} to {block['end']}", markup=False)
    out.print(
        f"     {offer['usable_hours']:g} of {offer['hours']:g} h usable on each of "
        f"{offer['instances']}; one job at most {offer['longest_job_hours']:g} h",
        markup=False,
    )
    out.print(f"     {money}{each}; it cannot be given back", markup=False)
    out.print(f"     buy   {offer['purchase_command']}", markup=False)
    out.print(f"     spec  {json.dumps(offer['spec'])}", markup=False)
