"""Dockerfiles repeat the manifest, and the manifest names no version known to be bad."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "containers"
MANIFEST = tomllib.loads((FOLDER / "versions.toml").read_text())
IMAGES = [name for name in MANIFEST if name not in ("floors", "known_bad")]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def refused(pinned: dict[str, str], manifest: dict[str, Any]) -> list[str]:
    """Why these versions may not be used."""
    reasons = [
        f"{name} {version}: {manifest['known_bad'][f'{name} {version}']}"
        for name, version in pinned.items()
        if f"{name} {version}" in manifest["known_bad"]
    ]
    reasons += [
        f"{name} {pinned[name]} is older than {floor}"
        for name, floor in manifest["floors"].items()
        if name in pinned and _number(pinned[name]) < _number(floor)
    ]
    return reasons


@pytest.mark.parametrize("image", IMAGES)
def test_args_are_the_manifest(image: str) -> None:
    text = (FOLDER / f"{image}.Dockerfile").read_text()
    args = dict(re.findall(r"^ARG ([A-Z0-9_]+)=(\S+)$", text, re.MULTILINE))
    assert args == {name.upper(): version for name, version in MANIFEST[image].items()}


@pytest.mark.parametrize("image", IMAGES)
def test_nothing_pinned_is_refused(image: str) -> None:
    assert refused(MANIFEST[image], MANIFEST) == []


@pytest.mark.parametrize(
    ("version", "word"), [("1.47.0", "broadcast"), ("1.46.0", "older than 1.48.0")]
)
def test_bad_installers_are_refused(version: str, word: str) -> None:
    (reason,) = [r for r in refused({"efa_installer": version}, MANIFEST) if word in r]
    assert version in reason


def test_image_and_laptop_train_with_the_same_packages() -> None:
    lines = (ROOT / "requirements-trainer.txt").read_text().splitlines()
    wanted = dict(line.split("==") for line in lines if "==" in line)
    pinned = {k: v for k, v in MANIFEST["trainer"].items() if k in wanted}
    assert pinned == wanted


@pytest.mark.parametrize("image", IMAGES)
def test_no_variable_of_older_efa_advice(image: str) -> None:
    text = (FOLDER / f"{image}.Dockerfile").read_text()
    settings = re.findall(r"^ENV (?:.*\\\n)*.*$", text, re.MULTILINE)
    assert settings
    assert not re.search(r"\b(NCCL|FI|RDMAV)_[A-Z_]+=", "\n".join(settings))


@pytest.mark.parametrize("image", IMAGES)
def test_hadolint(image: str) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    ran = subprocess.run(
        [hadolint, FOLDER / f"{image}.Dockerfile"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


def test_hadolint_sees_what_is_wrong(tmp_path: Path) -> None:
    """So that the test above cannot pass for want of rules."""
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian\nRUN cd /tmp && sudo apt-get install curl\n")
    hadolint = Path(sys.executable).parent / "hadolint"
    ran = subprocess.run([hadolint, bad], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert {"DL3006", "DL3003", "DL3004"} <= set(re.findall(r"DL\d+", ran.stdout))


@pytest.mark.parametrize("image", IMAGES)
def test_each_image_proves_that_its_parts_fit_after_the_last_one(image: str) -> None:
    text = (FOLDER / f"{image}.Dockerfile").read_text()
    last = text.index("efa-check --image")
    assert last > max(text.index("COPY trainer trainer"), text.index("pip install"))


def test_bases_and_sources_are_pinned_by_what_cannot_be_moved() -> None:
    pinned = MANIFEST["trainer"]
    for name in ("base_image", "build_image"):
        assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", pinned[name])
    text = (FOLDER / "trainer.Dockerfile").read_text()
    for name in ("gdrcopy", "nccl_tests"):
        assert re.fullmatch("[0-9a-f]{40}", pinned[f"{name}_commit"])
        assert f'rev-parse HEAD)" = "${{{name.upper()}_COMMIT}}"' in text
    assert not re.search(r"curl[^\n]*\|\s*(ba)?sh", text)
