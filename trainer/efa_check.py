"""``efa-check``: do libfabric, EFA, NCCL and aws-ofi-nccl fit together, here and now?

    efa-check [--image] [--json] [--instance-type ml.p5.48xlarge]
    efa-check --record > evidence.json      on a host
    efa-check --evidence evidence.json      anywhere

``--image`` asks what an image alone can answer: no devices, no provider. Ends with 0 where nothing
is wrong, 1 where something is, 2 where it was called wrongly. Whether NCCL then *uses* EFA is read
from its log when a run starts (``trainer.efa``); this says beforehand why it would not.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from everstep.contracts.instances import INSTANCE_TYPES
from trainer.efa import (
    INSTALLER_FLOOR,
    KNOWN_BAD,
    KNOWN_BAD_INSTALLERS,
    NO_SETTINGS_SINCE,
    OLD_SETTINGS,
    libfabric_version,
)
from trainer.efa_evidence import Evidence, gather

EFA_LIB = "/opt/amazon/efa/lib"
_TCP = re.compile(r"provider: (tcp|sockets|udp|shm|net)\b")
_DOMAIN = re.compile(r"^\s+domain: (\S+?)(?:-rdm|-dgrm)?$", re.MULTILINE)
_PACKAGE = r"{}[-_](\d+\.\d+(?:\.\d+)?)"


class Finding(NamedTuple):
    """``level``: ``ok``, ``warn`` or ``fail``."""

    level: str
    what: str
    said: str
    hint: str = ""


def judge(seen: Evidence, *, image_only: bool = False) -> list[Finding]:
    """Every finding, good ones included, in the order of the stack from the bottom up."""
    parts = [_installer(seen), _libfabric(seen), _plugin(seen), _nccl(seen)]
    parts += [_shadows(seen), _environment(seen), _gdrcopy(seen, image_only)]
    if not image_only:
        parts.insert(0, _devices(seen))
        parts.append(_provider(seen))
    return [finding for part in parts for finding in part]


def _devices(seen: Evidence) -> Iterator[Finding]:
    found = [device for device in seen.devices if "uverbs" in device]
    known = INSTANCE_TYPES.get(seen.instance_type)
    wanted = known.efa_interfaces if known else 0
    said = f"{len(found)} in the container"
    if not found:
        yield Finding(
            "fail", "EFA devices", "no /dev/infiniband/uverbs* in the container",
            "an instance type with EFA; outside SageMaker docker run --device=/dev/infiniband",
        )  # fmt: skip
    elif len(found) < wanted:
        yield Finding(
            "fail", "EFA devices", f"{said}, {seen.instance_type} has {wanted}",
            "another host: its driver did not bring all up; or docker run gave it only some",
        )  # fmt: skip
    else:
        yield Finding("ok", "EFA devices", said)


def _installer(seen: Evidence) -> Iterator[Finding]:
    match = re.search(r"EFA installer version: (\S+)", seen.packages)
    version = match[1] if match else ""
    what, hint = "EFA installer", f"containers/versions.toml pins one; not below {INSTALLER_FLOOR}"
    if not version:
        yield Finding("fail", what, "is not in this image", hint)
    elif version in KNOWN_BAD_INSTALLERS:
        yield Finding("fail", what, f"{version}: {KNOWN_BAD_INSTALLERS[version]}", hint)
    elif _numbers(version) < _numbers(INSTALLER_FLOOR):
        yield Finding("fail", what, f"{version} is older than {INSTALLER_FLOOR}", hint)
    else:
        yield Finding("ok", what, version)


def _libfabric(seen: Evidence) -> Iterator[Finding]:
    found = libfabric_version(seen.fi_version)
    if found is None:
        yield Finding("fail", "libfabric", "fi_info does not run", f"is {EFA_LIB} there?")
        return
    said = ".".join(map(str, found))
    installed = _installed(seen, "libfabric1-aws") or _installed(seen, "libfabric-aws")
    if found < NO_SETTINGS_SINCE:
        yield Finding(
            "fail", "libfabric", f"{said} needs settings of older images", "a newer EFA installer"
        )
    elif installed and _numbers(installed)[:2] != found:
        yield Finding(
            "fail", "libfabric", f"{said} answers, the EFA installer brought {installed}",
            "another libfabric comes first: LD_LIBRARY_PATH, or a package of the base image",
        )  # fmt: skip
    else:
        yield Finding("ok", "libfabric", said)


def _plugin(seen: Evidence) -> Iterator[Finding]:
    what, version = "aws-ofi-nccl", seen.plugin_version
    if not seen.plugin_path:
        yield Finding(
            "fail", what, "no libnccl-net in /opt/amazon/ofi-nccl: NCCL would use TCP",
            "efa_installer.sh --disable-ngc; since 1.39 the plugin is part of it",
        )  # fmt: skip
        return
    numbers = _numbers(version) if version else ()
    bad = next((why for known, why in KNOWN_BAD.items() if known[: len(numbers)] == numbers), None)
    installed = _installed(seen, "libnccl-ofi")
    if not version:
        yield Finding(
            "warn", what, f"{seen.plugin_path} does not say its version",
            "NCCL_DEBUG=INFO prints it at the start of a run",
        )  # fmt: skip
    elif bad is not None:
        yield Finding("fail", what, f"{version} {bad}", "another EFA installer")
    elif installed and _numbers(installed)[:2] != numbers[:2]:
        yield Finding(
            "fail", what, f"{version} at {seen.plugin_path}, the installer brought {installed}",
            "one plugin only: remove the other",
        )  # fmt: skip
    else:
        yield Finding("ok", what, f"{version} at {seen.plugin_path}")


def _nccl(seen: Evidence) -> Iterator[Finding]:
    torch, loaded = seen.nccl_torch, seen.nccl_loaded
    if not torch:
        yield Finding("fail", "NCCL", "this torch has none", "a torch that is built for CUDA")
    elif loaded and loaded != torch:
        yield Finding(
            "fail", "NCCL", f"the loader finds {loaded}, torch was built with {torch}",
            "one NCCL in the image, torch's own: LD_LIBRARY_PATH, LD_PRELOAD, apt's libnccl2",
        )  # fmt: skip
    else:
        yield Finding("ok", "NCCL", torch)
    paths = sorted(set(re.findall(r"libnccl\.so\.2 .*=> (\S+)", seen.ldconfig)))
    if len(paths) > 1:
        yield Finding(
            "warn", "NCCL", f"{len(paths)} in the loader's cache: {', '.join(paths)}",
            "keep torch's own, remove the other",
        )  # fmt: skip


def _shadows(seen: Evidence) -> Iterator[Finding]:
    first = (seen.shadows.get("libfabric.so.1") or [EFA_LIB])[0]
    if not first.startswith(EFA_LIB):
        yield Finding(
            "fail", "LD_LIBRARY_PATH", f"{first} comes before {EFA_LIB}",
            f"{EFA_LIB} first, or leave that folder out",
        )  # fmt: skip
    if re.search(r"lib(nccl|fabric)\b", seen.environment.get("LD_PRELOAD", "")):
        yield Finding("fail", "LD_PRELOAD", seen.environment["LD_PRELOAD"], "unset it")


_HARMFUL = (
    ("NCCL_PROTO", ".*", "fail", "bars the faster protocols and unloads the plugin's tuner"),
    ("NCCL_NET", "(?i)(?!aws|ofi|libfabric).*", "fail", "NCCL would not use the EFA plugin"),
    ("NCCL_NET_PLUGIN", "(?i)none", "fail", "NCCL would not load the EFA plugin"),
    ("NCCL_NET_GDR_LEVEL", "(?i)loc|0", "fail", "no GPUDirect"),
    ("NCCL_P2P_DISABLE", "1", "fail", "GPUs of a node would talk through host memory"),
    ("NCCL_SHM_DISABLE", "1", "warn", "costs speed inside a node"),
    ("NCCL_ALGO", ".*", "warn", "takes the choice from the plugin's tuner"),
    ("OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK", "1", "warn", "hides that GPUDirect is missing"),
    ("FI_PROVIDER", "(?!efa).*", "fail", "libfabric would not use EFA"),
    ("FI_EFA_USE_DEVICE_RDMA", "0", "fail", "no GPUDirect"),
)
"""Variable, values, level, why. Sources: NCCL's and aws-ofi-nccl's own documentation of their
variables; that NCCL_PROTO is harmful now: AWS's EFA guide since libfabric 1.18."""


def _environment(seen: Evidence) -> Iterator[Finding]:
    count = 0
    for name, values, level, why in _HARMFUL:
        value = seen.environment.get(name)
        if value is not None and re.fullmatch(values, value):
            count += 1
            yield Finding(level, f"{name}={value}", why, "unset it")
    for name, value in OLD_SETTINGS.items():
        if seen.environment.get(name) == value and name != "NCCL_PROTO":
            count += 1
            yield Finding(
                "warn", f"{name}={value}", "of older advice; not needed any more", "unset it"
            )
    if not count:
        yield Finding("ok", "environment", "nothing harmful is set")


def _gdrcopy(seen: Evidence, image_only: bool) -> Iterator[Finding]:
    library = "libgdrapi" in seen.ldconfig or "libgdrapi.so.2" in seen.shadows
    if not library:
        yield Finding(
            "warn", "GDRCopy", "no libgdrapi: small messages are slower",
            "an image with GDRCopy, as containers/trainer.Dockerfile has it",
        )  # fmt: skip
    elif not image_only and "dev/gdrdrv" not in seen.devices:
        yield Finding(
            "warn", "GDRCopy", "the host gives no /dev/gdrdrv: small messages are slower",
            "outside SageMaker docker run --device=/dev/gdrdrv; in it the host's driver decides",
        )  # fmt: skip
    else:
        yield Finding("ok", "GDRCopy", "libgdrapi" + ("" if image_only else " and /dev/gdrdrv"))


def _provider(seen: Evidence) -> Iterator[Finding]:
    domains = set(_DOMAIN.findall(seen.fi_info))
    known = INSTANCE_TYPES.get(seen.instance_type)
    if re.search(r"provider: efa\b", seen.fi_info):
        wanted = known.efa_interfaces if known else 0
        said = f"{len(domains)} interfaces"
        if len(domains) < wanted:
            yield Finding(
                "fail", "provider efa", f"{said}, {seen.instance_type} has {wanted}",
                "another host, or the container's missing devices",
            )  # fmt: skip
        else:
            yield Finding("ok", "provider efa", said)
    elif tcp := _TCP.search(seen.fi_info):
        yield Finding(
            "fail", "provider efa", f"libfabric offers {tcp[1]} instead: TCP fallback",
            "a type with EFA, and its devices in the container",
        )  # fmt: skip
    else:
        first = next((x for x in seen.fi_info.splitlines() if x.strip()), "fi_info says nothing")
        yield Finding(
            "fail", "provider efa", f"not offered: {first.strip()[:200]}",
            "the host's EFA driver, the container's devices, an unlimited memlock",
        )  # fmt: skip


def _installed(seen: Evidence, package: str) -> str:
    """The version in the EFA installer's list, of Debian's or RPM's spelling."""
    match = re.search(rf"(?:^|\s){_PACKAGE.format(re.escape(package))}", seen.packages)
    return match[1] if match else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def main(argv: list[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser(prog="efa-check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--image", action="store_true", help="only what an image alone can answer")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--instance-type", default="", help="where SageMaker's own file is missing")
    parser.add_argument("--record", action="store_true", help="print the evidence, judge nothing")
    parser.add_argument("--evidence", type=Path, help="judge a record instead of this machine")
    given = parser.parse_args(argv)
    if given.evidence:
        try:
            seen = Evidence.parse(given.evidence.read_text())
        except (OSError, ValueError, TypeError) as error:
            parser.error(f"{given.evidence}: {error}")
    else:
        seen = gather(environ, given.instance_type)
    if given.record:
        print(seen.record())
        return 0
    findings = judge(seen, image_only=given.image)
    failed = any(finding.level == "fail" for finding in findings)
    if given.json:
        print(json.dumps({"ok": not failed, "findings": [x._asdict() for x in findings]}, indent=1))
    else:
        for level, what, said, hint in findings:
            print(f"{level:4}  {what}: {said}" + (f"\n      hint: {hint}" if hint else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
