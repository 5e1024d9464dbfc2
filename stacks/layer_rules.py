"""The Powertools layer of a config: one that a function of the region can use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem
from stacks.regions import POWERTOOLS_ACCOUNTS, REGIONS, partition_of


def layer_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    lambdas, region = sections.get("lambdas"), sections.get("region")
    if lambdas is None:
        return
    given = lambdas.powertools_layer
    for message, hint in _layer(given, region):
        yield Problem(path="lambdas.powertools_layer", value=given, message=message, hint=hint)


def _layer(given: str, region: str | None) -> Iterator[tuple[str, str]]:
    """Message and hint."""
    names = set(re.findall(r"{(.*?)}", given))
    unknown = sorted(names - {"partition", "region", "publisher"})
    yield from (
        (f"{{{n}}} is not known", "{partition}, {region} and {publisher} are") for n in unknown
    )
    if re.search("[{}]", re.sub(r"{(.*?)}", "", given)):
        yield "has a brace without its partner", "{partition}, {region} and {publisher}"
        return
    if unknown or region not in REGIONS:
        return
    publisher = POWERTOOLS_ACCOUNTS.get(region)
    if "publisher" in names and publisher is None:
        yield (
            f"Powertools publishes no layer in {region}",
            "publish it in your own account there, and give that ARN",
        )
        return
    elsewhere = set(POWERTOOLS_ACCOUNTS.values()) - {publisher}
    if wrong := [account for account in elsewhere if f":{account}:" in given]:
        yield (
            f"account {wrong[0]} publishes Powertools elsewhere, not in {region}",
            "write {publisher} for the account",
        )
        return
    partition = partition_of(region)
    arn = given.format(partition=partition, region=region, publisher=publisher)
    if not re.match(f"arn:{partition}:lambda:{region}:[0-9]{{12}}:layer:", arn):
        yield (
            f"is no layer of {region}: Lambda takes none of another region or partition",
            "arn:{partition}:lambda:{region}:{publisher}:layer:NAME:VERSION",
        )
    kind = re.search(r"python3[0-9]+|arm64", arn.replace("python312", ""))
    if kind:
        yield (
            f"is built for {kind[0]}, the functions are Python 3.12 on x86_64",
            "AWSLambdaPowertoolsPythonV3-python312-x86_64",
        )
