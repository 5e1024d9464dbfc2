"""The image's build: its base by region and torch, its bill of materials, what its role may do."""

import copy
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stacks.build_spec import BUILD_SPEC
from stacks.config import CONFIG_FOLDER, ROOT, check
from stacks.dlc import base_image, table, versions_in
from stacks.regions import REGIONS

from .conftest import Synthesised, synthesise
from .test_regions import moved

# What `image_uris.retrieve` of sagemaker-core 2.27.0 answered, for ml.p5.48xlarge and scope
# training: frameworks pytorch and, from 2.11 on, pytorch-amzn2023.
RETRIEVED = """
us-east-1 2.9 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312
us-west-2 2.10 763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.10.0-gpu-py313
eu-west-1 2.11 763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.11-cu130-amzn2023-sagemaker
ap-northeast-1 2.12 763104351884.dkr.ecr.ap-northeast-1.amazonaws.com/pytorch:2.12-cu130-amzn2023-sagemaker
us-east-1 2.13 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker
us-gov-west-1 2.13 442386744353.dkr.ecr.us-gov-west-1.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker
us-gov-east-1 2.9 446045086412.dkr.ecr.us-gov-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312
cn-north-1 2.13 727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch:2.13-cu133-amzn2023-sagemaker
cn-northwest-1 2.10 727897471807.dkr.ecr.cn-northwest-1.amazonaws.com.cn/pytorch-training:2.10.0-gpu-py313
me-central-1 2.14 914824155844.dkr.ecr.me-central-1.amazonaws.com/pytorch:2.14-cu133-amzn2023-sagemaker
ap-southeast-7 2.13 590183813437.dkr.ecr.ap-southeast-7.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker
"""  # noqa: E501
NOT_THERE = [(region, "2.14") for region in ("us-gov-west-1", "us-gov-east-1", "cn-north-1")]


@pytest.mark.parametrize("line", RETRIEVED.split("\n")[1:-1])
def test_the_base_is_what_image_uris_answers(line: str) -> None:
    region, torch, uri = line.split()
    assert base_image(region, torch).uri == uri


@pytest.mark.parametrize("region", REGIONS)
def test_every_region_has_the_trainers_own_torch(region: str) -> None:
    manifest = tomllib.loads((ROOT / "containers" / "versions.toml").read_text())
    torch = manifest["trainer"]["torch"].rpartition(".")[0]
    assert torch in versions_in(region)
    assert base_image(region, torch).uri.startswith(f"{table()['accounts'][region]}.dkr.ecr.")


@pytest.mark.parametrize(("region", "torch"), NOT_THERE)
def test_a_region_without_the_image_says_so(region: str, torch: str) -> None:
    with pytest.raises(KeyError, match=torch):
        base_image(region, torch)


def with_images(region: str = "us-east-1", **images: Any) -> dict[str, Any]:
    return moved("dev", region) | {"images": images}


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        (
            with_images("cn-north-1", base="dlc", torch="2.14"),
            "images.torch",
            "in cn-north-1 (got '2.14')\n    hint: there are 2.9, 2.10, 2.11, 2.12, 2.13",
        ),
        (with_images(base="dlc", torch="1.13"), "images.torch", "no Deep Learning Container"),
        (with_images(base="dlc", torch="2"), "images.torch", "pattern"),
        (with_images(torch="2.13"), "images.torch", 'images.base is "cuda"'),
        (with_images(base="dcl"), "images.base", "'cuda' or 'dlc'"),
        (with_images(bass="dlc"), "images.bass", "did you mean 'base'"),
        (with_images(critical_findings="ignore"), "images.critical_findings", "'refuse'"),
    ],
)
def test_a_wrong_choice_is_refused_before_synthesis(
    raw: dict[str, Any], path: str, words: str
) -> None:
    config, problems = check(raw)
    assert config is None
    (problem,) = problems
    assert problem.path == path
    assert words in str(problem)


# --- the build project ----------------------------------------------------------------------------


def project(found: Synthesised) -> dict[str, Any]:
    (resource,) = found.resources("AWS::CodeBuild::Project")
    return resource


def variables(found: Synthesised) -> dict[str, Any]:
    listed = project(found)["Environment"]["EnvironmentVariables"]
    return {variable["Name"]: variable["Value"] for variable in listed}


@pytest.fixture(scope="module")
def dlc(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    raw = copy.deepcopy(tomllib.loads((CONFIG_FOLDER / "dev.toml").read_text()))
    raw["images"] = {"base": "dlc", "torch": "2.13", "critical_findings": "refuse"}
    config, problems = check(raw)
    assert config is not None, problems
    return synthesise("dev", tmp_path_factory.mktemp("cdk") / "dlc", config)


def test_the_container_of_aws_is_a_build_argument_and_may_be_pulled(dlc: Synthesised) -> None:
    assert dlc.report == []
    given = variables(dlc)
    assert given["DOCKERFILE"] == "containers/dlc.Dockerfile"
    assert given["BASE_IMAGE"] == base_image("us-east-1", "2.13").uri
    text = json.dumps(dlc.templates["images"])
    assert 'arn:aws:ecr:us-east-1:763104351884:repository/pytorch"' in text.replace("\\", "")


def test_another_base_is_another_tag(dlc: Synthesised, prod: Synthesised) -> None:
    assert variables(dlc)["TAG"] != variables(prod)["TAG"]
    assert all(re.fullmatch("[0-9a-f]{16}", variables(found)["TAG"]) for found in (dlc, prod))


def test_the_cuda_image_pulls_nothing_of_awss(prod: Synthesised) -> None:
    assert variables(prod)["BASE_IMAGE"] == ""
    assert variables(prod)["DOCKERFILE"] == "containers/trainer.Dockerfile"
    assert "763104351884" not in json.dumps(prod.templates["images"])


def test_findings_refuse_where_config_says_so(dlc: Synthesised, prod: Synthesised) -> None:
    for found, refuses in ((dlc, True), (prod, False)):
        text = json.dumps(found.templates["control-plane"]).replace("\\", "")
        assert ('"critical_findings":"refuse"' in text) is refuses


def test_the_role_stores_one_bill_of_materials_and_no_team_can_have_that_prefix(
    prod: Synthesised,
) -> None:
    text = json.dumps(prod.templates["images"])
    assert f"_images/trainer/{variables(prod)['TAG']}.cdx.json" in text
    raw = tomllib.loads((CONFIG_FOLDER / "dev.toml").read_text())
    raw["teams"] = [{"name": "_images"}]
    assert check(raw)[0] is None


# --- the build itself, with docker, aws and pip played --------------------------------------------

PLAYED = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $*" in $FAILS | $MISSING) exit 1;; esac
"""


def build(
    tmp_path: Path, fails: str = "", there: bool = False, base: str = ""
) -> tuple[int, list[str]]:
    """The commands of the build spec in a shell, as CodeBuild runs them; what they called."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("docker", "aws", "python3"):
        (tools / name).write_text(PLAYED)
        (tools / name).chmod(0o755)
    venv = tmp_path / "syft" / "bin"
    venv.mkdir(parents=True)
    for name in ("python", "syft"):
        (venv / name).write_text(PLAYED)
        (venv / name).chmod(0o755)
    phases: Any = BUILD_SPEC["phases"]
    lines = [*phases["pre_build"]["commands"], *phases["build"]["commands"]]
    script = " || exit 1\n".join(lines).replace("/tmp/syft", str(tmp_path / "syft"))
    ran = subprocess.run(
        ["sh", "-c", script],
        cwd=ROOT,
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "CALLS": str(tmp_path / "calls"),
            "FAILS": fails or "none",
            "MISSING": "none" if there else "aws*describe-images*",
            "REPOSITORY": "1.dkr.ecr.r.amazonaws.com/everstep-dev/trainer",
            "TAG": "c0ffee",
            "DOCKERFILE": "containers/dlc.Dockerfile",
            "BASE_IMAGE": base,
            "SBOM": "s3://out/_images/trainer/c0ffee.cdx.json",
        },
        check=False,
    )
    return ran.returncode, (tmp_path / "calls").read_text().splitlines()


def place(calls: list[str], start: str) -> int:
    (index,) = [i for i, call in enumerate(calls) if call.startswith(start)]
    return index


def test_an_image_is_listed_before_it_is_pushed(tmp_path: Path) -> None:
    code, calls = build(tmp_path)
    assert code == 0
    order = [
        place(calls, "docker build --file containers/dlc.Dockerfile --tag"),
        place(calls, "python -m pip install --quiet --require-hashes -r containers/syft.txt"),
        place(calls, "syft scan docker:1.dkr.ecr.r.amazonaws.com/everstep-dev/trainer:c0ffee"),
        place(calls, "aws s3 cp /tmp/sbom.json s3://out/_images/trainer/c0ffee.cdx.json"),
        place(calls, "docker push 1.dkr.ecr.r.amazonaws.com/everstep-dev/trainer:c0ffee"),
    ]
    assert order == sorted(order)


def test_a_base_is_logged_in_to_and_given(tmp_path: Path) -> None:
    base = base_image("us-east-1", "2.13").uri
    _, calls = build(tmp_path, base=base)
    logins = [call for call in calls if call.startswith("docker login")]
    assert [shlex.split(call)[-1] for call in logins] == [
        "1.dkr.ecr.r.amazonaws.com",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com",
    ]
    built = calls[place(calls, "docker build")]
    assert f"--build-arg BASE_IMAGE={base} --tag" in built


def test_what_was_built_is_not_built_again(tmp_path: Path) -> None:
    code, calls = build(tmp_path, there=True)
    assert code == 0
    assert not [call for call in calls if call.startswith(("docker build", "docker push"))]


@pytest.mark.parametrize("step", ["docker build*", "python -m pip*", "syft*", "aws s3 cp*"])
def test_no_image_without_its_bill_of_materials(tmp_path: Path, step: str) -> None:
    code, calls = build(tmp_path, fails=step)
    assert code != 0
    assert not [call for call in calls if call.startswith("docker push")]
