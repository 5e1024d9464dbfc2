"""efa-check against recorded outputs: hosts of several years, and each fault that stops EFA."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.containers.efa_hosts import (
    GOOD,
    NO_DATA,
    OLD_DEBIAN,
    PACKAGES,
    RPM,
    WARNED,
    WRONG,
    interfaces,
    provider,
)
from trainer.efa import INSTALLER_FLOOR, KNOWN_BAD_INSTALLERS
from trainer.efa_check import Finding, judge, main
from trainer.efa_evidence import Evidence, dotted, gather, plugin_version

ROOT = Path(__file__).parents[2]


def fails(seen: Evidence, **how: bool) -> list[Finding]:
    return [finding for finding in judge(seen, **how) if finding.level == "fail"]


def warns(seen: Evidence) -> list[Finding]:
    return [finding for finding in judge(seen) if finding.level == "warn"]


ALIKE = {
    "rpm": {"packages": RPM},
    "g6e": {
        "instance_type": "ml.g6e.24xlarge",
        "fi_info": interfaces(2),
        "devices": ["dev/gdrdrv", "dev/infiniband/uverbs0", "dev/infiniband/uverbs1"],
    },
    "no second NCCL to be found": {"nccl_loaded": ""},
    "names of older interfaces": {
        "instance_type": "ml.p4d.24xlarge",
        "fi_info": "".join(
            provider(f"efa_{i}-rdm", "EFA-fe80::39:beff:fe6e:c23") for i in range(4)
        ),
    },
    "a type that is not known": {"instance_type": "", "fi_info": interfaces(1)},
    "NCCL's own word for the plugin": {"environment": {"NCCL_NET": "AWS Libfabric"}},
}


@pytest.mark.parametrize("changes", [{}, *ALIKE.values()], ids=["p5", *ALIKE])
def test_a_good_host_has_nothing_to_fail_or_warn(changes: dict[str, Any]) -> None:
    findings = judge(GOOD._replace(**changes))
    assert {finding.level for finding in findings} == {"ok"}
    assert len(findings) == 8


@pytest.mark.parametrize(
    ("changes", "what", "word"), [x[1:] for x in WRONG], ids=[x[0] for x in WRONG]
)
def test_a_fault_is_the_one_thing_that_is_said(
    changes: dict[str, Any], what: str, word: str
) -> None:
    (found,) = fails(GOOD._replace(**changes))
    assert found.what == what
    assert word in found.said


@pytest.mark.parametrize(("changes", "what"), WARNED)
def test_what_costs_only_speed_or_may_be_right_is_a_warning(
    changes: dict[str, Any], what: str
) -> None:
    seen = GOOD._replace(**changes)
    assert fails(seen) == []
    (found,) = warns(seen)
    assert found.what == what


def test_an_image_of_2022_fails_for_each_of_its_parts() -> None:
    old = GOOD._replace(
        packages=OLD_DEBIAN,
        fi_version="fi_info: 1.16.0amzn3.0\nlibfabric: 1.16.0amzn3.0\nlibfabric api: 1.16\n",
        plugin_path="/opt/aws-ofi-nccl/lib/libnccl-net.so",
        plugin_version="1.4.0",
        environment={"FI_PROVIDER": "efa", "NCCL_PROTO": "simple", "RDMAV_FORK_SAFE": "1"},
    )
    assert [x.what for x in fails(old)] == ["EFA installer", "libfabric", "NCCL_PROTO=simple"]


def test_an_image_alone_is_not_asked_for_devices() -> None:
    alone = GOOD._replace(fi_info=NO_DATA, devices=[], instance_type="")
    assert {finding.level for finding in judge(alone, image_only=True)} == {"ok"}
    assert {finding.what for finding in fails(alone)} == {"EFA devices", "provider efa"}


def test_its_facts_are_the_manifests() -> None:
    manifest = tomllib.loads((ROOT / "containers" / "versions.toml").read_text())
    assert manifest["floors"]["efa_installer"] == INSTALLER_FLOOR
    known = {f"efa_installer {version}" for version in KNOWN_BAD_INSTALLERS}
    assert known == {name for name in manifest["known_bad"] if name.startswith("efa_installer ")}


# --- how it is called -----------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.json"
    path.write_text(GOOD.record())
    return path


def test_a_record_is_judged_anywhere(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--evidence", str(record)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    record.write_text(GOOD._replace(fi_info=NO_DATA).record())
    assert main(["--evidence", str(record)]) == 1
    assert "hint: the host's EFA driver" in capsys.readouterr().out


def test_json_is_one_object(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record.write_text(GOOD._replace(nccl_loaded="2.27.3").record())
    assert main(["--evidence", str(record), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    (found,) = [x for x in said["findings"] if x["level"] == "fail"]
    assert found["what"] == "NCCL"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"other": 1}', '{"packages": 5}', '{"devices": "x"}', "null"]
)
def test_what_is_no_record_is_refused_without_a_traceback(
    record: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["--evidence", str(record)])
    assert ended.value.code == 2
    assert str(record) in capsys.readouterr().err


def test_a_machine_without_any_of_it_fails_and_says_why() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "trainer.efa_check", "--image"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NCCL_PROTO": "simple"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "fail  NCCL_PROTO=simple: bars the faster protocols" in ran.stdout
    assert ran.stderr == ""


# --- what is gathered -----------------------------------------------------------------------------


def test_a_tree_like_the_images_is_read(tmp_path: Path) -> None:
    """The files that the installer leaves, a program in fi_info's place, devices as files."""
    tree = {
        "opt/amazon/efa_installed_packages": PACKAGES,
        "opt/amazon/efa/bin/fi_info": '#!/bin/sh\n[ "$1" = --version ] && echo libfabric: 2.4.0 '
        '|| { echo "$2"; echo "fi_getinfo: -61" >&2; exit 61; }\n',
        "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so": "\x7fELF..NET/OFI Initializing aws-ofi-nccl "
        "1.20.0-aws\0..",
        "opt/amazon/efa/lib/libfabric.so.1": "",
        "usr/lib/libfabric.so.1": "",
        "opt/ml/input/config/resourceconfig.json": '{"current_instance_type": "ml.p5.48xlarge"}',
        "dev/infiniband/uverbs0": "",
        "dev/gdrdrv": "",
        "dev/null2": "",
    }
    for name, content in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "opt/amazon/efa/bin/fi_info").chmod(0o755)
    folders = [tmp_path / "usr/lib", tmp_path / "nothing", tmp_path / "opt/amazon/efa/lib"]
    environ = {
        "LD_LIBRARY_PATH": ":".join(["", *map(str, folders)]),
        "NCCL_PROTO": "simple",
        "AWS_SESSION_TOKEN": "secret",
    }
    seen = gather(environ, root=tmp_path)
    assert seen.packages == PACKAGES
    assert seen.fi_version == "libfabric: 2.4.0\n"
    assert seen.fi_info == "efa\nfi_getinfo: -61\n"
    assert seen.plugin_version == "1.20.0"
    assert seen.shadows["libfabric.so.1"] == [
        str(tmp_path / "usr/lib/libfabric.so.1"),
        str(tmp_path / "opt/amazon/efa/lib/libfabric.so.1"),
    ]
    assert seen.environment.keys() == {"LD_LIBRARY_PATH", "NCCL_PROTO"}
    assert seen.devices == ["dev/gdrdrv", "dev/infiniband/uverbs0"]
    assert seen.instance_type == "ml.p5.48xlarge"
    assert Evidence.parse(seen.record()) == seen


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\0NET/OFI Initializing aws-ofi-nccl 1.18.0-aws\n\0", "1.18.0"),
        (b"..NET/OFI Using aws-ofi-nccl 1.4.0aws", "1.4.0"),
        (b"aws-ofi-nccl-%s", ""),
        (b"", ""),
    ],
)
def test_the_plugins_version_is_in_its_file(content: bytes, version: str) -> None:
    assert plugin_version(content) == version


@pytest.mark.parametrize(
    ("number", "version"),
    [(22907, "2.29.7"), (21805, "2.18.5"), (2808, "2.8.8"), (23001, "2.30.1")],
)
def test_nccls_number_is_read_as_nccl_writes_it(number: int, version: str) -> None:
    assert dotted(number) == version
