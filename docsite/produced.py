"""What the program says to each wrong thing of the tests' tables, and which place says it."""

import contextlib
import copy
import io
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import typer

from docsite import examples, wrong
from docsite.sites import Kind, Site
from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.contracts.problems import Problem
from everstep.policy.classify import classify
from everstep.policy.file_system import file_system_problems
from everstep.policy.reading import Where, read
from everstep.policy.remote_debug import remote_debug_problems
from everstep.policy.rules import RULES
from everstep.policy.verdict import budget_problems, verdict
from stacks import config
from tests.containers.efa_hosts import GOOD, WARNED
from tests.containers.efa_hosts import WRONG as EFA
from tests.contracts.wrong_specs import BAD, P5, REFUSED
from tests.stacks.wrong_configs import NASTY, WRONG, put, put_nasty, whole
from trainer.efa_check import judge
from trainer.errors import TrainerError


class Said(NamedTuple):
    kind: Kind
    what: str
    hint: str


def produced() -> list[Said]:
    """In the order of the tables, the first of each place being the plainest."""
    return [
        *_commands(),
        *(_problem("spec", x) for x in _specs()),
        *(_problem("config", x) for x in _configs()),
        *_trainer(),
        *(Said("run", f"{x.failure_class}: {x.cause}", x.hint) for x in wrong.failures()),
        *_rules(),
        *(
            Said("doctor", f"{x.check}: {x.said}", x.fix)
            for x in wrong.findings()
            if x.state != "ok"
        ),
        *_efa(),
    ]


def examples_of(sites: list[Site], said: list[Said]) -> dict[Site, Said]:
    """The first text of each place. Of several that could have made one it is the place with the
    most words of its own: an open template fits nearly all."""
    found: dict[Site, Said] = {}
    for one in said:
        text = f"{one.what}\n{one.hint}"
        able = (x for x in sites if x.kind in (one.kind, "spec") and not x.is_open)
        makers = [x for x in able if x.made(text)]
        if makers:
            found.setdefault(max(makers, key=_own_words), one)
    return found


def _own_words(site: Site) -> int:
    return len(re.sub(r"\{[^{}]*\}", "", site.what + site.hint))


def _problem(kind: Kind, problem: Problem) -> Said:
    what, _, hint = str(problem).partition("\n    hint: ")
    return Said(kind, what, hint)


def _commands() -> Iterator[Said]:
    nowhere = {"AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with mock.patch.dict(os.environ, kept | nowhere, clear=True):
        yield from map(_command, examples.COMMANDS)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for name, content in wrong.FILES.items():
                with open(name, "wb") as file:
                    file.write(content)
            yield from map(_command, wrong.COMMANDS)


def _command(line: str) -> Said:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            typer.main.get_command(app).main(line.split(), "everstep", standalone_mode=False)
    except CliError as error:
        return Said("cli", error.what, error.hint)
    raise AssertionError(f"everstep {line}: no error")


def _specs() -> Iterator[Problem]:
    specs = [{**examples.SMALL, **change} for _, change in examples.SPECS]
    specs += [raw for _, raw, *_ in BAD]
    specs += [
        {**examples.SMALL, **more, "compute": [{**P5, **target}]}
        for target, more, *_ in REFUSED.values()
    ]
    specs.append({**examples.SMALL, "model": "llama2-70b"})
    specs.append({**examples.SMALL, "model": "llama2-70b", "compute": [P5 | {"nodes": 1}]})
    for raw in specs:
        yield from verdict(raw)[1]
    lustre = {"data": {"prefix": "a", "mode": "fsx"}, "checkpoint": {"storage": "fsx"}}
    yield from file_system_problems(wrong.spec_of(**lustre), wrong.TEAM)
    scratch = {"prefix": "a", "mode": "fsx", "scratch_gib": 1200}
    yield from file_system_problems(wrong.spec_of(data=scratch), wrong.TEAM)
    debug = wrong.spec_of(service={"remote_debug": True})
    yield from remote_debug_problems(debug, wrong.TEAM, "a-run")
    over = {"max_usd": 100, "deadline": "2026-11-30T00:00:00Z"}
    yield from budget_problems(wrong.spec_of(budget=over), {}, wrong.NOW.timestamp())


def _configs() -> Iterator[Problem]:
    prod = tomllib.loads((config.CONFIG_FOLDER / "prod.toml").read_text(encoding="utf-8"))
    for _, path, value in examples.CONFIGS:
        put(raw := copy.deepcopy(prod), path, value)
        yield from config.check(raw)[1]
    for path, value, *_ in WRONG:
        put(raw := whole(), path, value)
        yield from config.check(raw)[1]
    for path, value, *_ in NASTY:
        put_nasty(raw := copy.deepcopy(prod), path, value)
        yield from config.check(raw)[1]
    yield from config.load("staging")[1]


def _trainer() -> Iterator[Said]:
    for make in (*(x for _, x in examples.TRAINER), *wrong.TRAINER):
        try:
            make()
        except TrainerError as error:
            yield Said("trainer", str(error).removesuffix(f" (hint: {error.hint})"), error.hint)
        else:
            raise AssertionError("no error")


def _rules() -> Iterator[Said]:
    """Of the corpus that the classifier is held to, the first text of each rule."""
    corpus = examples.ROOT / "tests" / "policy" / "corpus.jsonl"
    hints = {rule.id: rule.hint for rule in RULES}
    for line in corpus.read_text(encoding="utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line)
        found = classify(read(entry["text"], Where(entry["where"])))
        if found.hint == hints.pop(found.rule, None):
            what = f"{found.failure_class}: {found.cause} (rule {found.rule})"
            yield Said("rule", what, found.hint)


def _efa() -> Iterator[Said]:
    for changes in (*(x for _, x, *_ in EFA), *(x for x, _ in WARNED)):
        for found in judge(GOOD._replace(**changes)):
            if found.level != "ok":
                yield Said("efa", f"{found.what}: {found.said}", found.hint)
