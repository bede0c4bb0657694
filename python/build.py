"""Builds wheels that contain the program troupe.

    python build.py [--out DIR] [--binary FILE | --dist DIR] [PLATFORM ...]

A platform is one of those of PLATFORMS, or `native` (the default), or `all`. Go is needed, and pip;
without setuptools in this Python's environment, pip fetches it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple

HERE = Path(__file__).resolve().parent


class Platform(NamedTuple):
    """GOOS, GOARCH and the wheel's platform tag."""

    goos: str
    goarch: str
    tag: str


# The programs are linked statically, so those for Linux are the same for both families of C libraries. pip tells
# the families apart by the tag.
PLATFORMS: Dict[str, Platform] = {
    "linux-x86_64": Platform("linux", "amd64", "manylinux_2_17_x86_64"),
    "linux-arm64": Platform("linux", "arm64", "manylinux_2_17_aarch64"),
    "linux-musl-x86_64": Platform("linux", "amd64", "musllinux_1_1_x86_64"),
    "linux-musl-arm64": Platform("linux", "arm64", "musllinux_1_1_aarch64"),
    "macos-x86_64": Platform("darwin", "amd64", "macosx_12_0_x86_64"),
    "macos-arm64": Platform("darwin", "arm64", "macosx_12_0_arm64"),
    "windows-x86_64": Platform("windows", "amd64", "win_amd64"),
}


def version() -> str:
    """Returns the package's version, which is also the program's."""
    found = re.search(r'(?m)^version = "(.+)"$', (HERE / "pyproject.toml").read_text())
    if found is None:
        raise SystemExit("build.py: pyproject.toml has no version")
    return found.group(1)


def native() -> str:
    """Returns the name of this machine's platform."""
    system = {"Darwin": "macos"}.get(platform.system(), platform.system().lower())
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine)
    if system == "linux" and platform.libc_ver()[0] != "glibc":
        system = "linux-musl"
    name = f"{system}-{machine}"
    if name not in PLATFORMS:
        raise SystemExit(
            f"build.py: no wheels are built for {name}; there are {', '.join(PLATFORMS)}"
        )
    return name


def build(name: str, out: Path, binary: str = "") -> Path:
    """Builds the wheel of a platform, and returns its path.

    Args:
        name: a key of PLATFORMS.
        out: the folder for it.
        binary: a program to put into it; without one, it is built from the sources.
    """
    target = PLATFORMS[name]
    with tempfile.TemporaryDirectory(prefix="troupe-wheel-") as folder:
        # A copy, because setuptools writes beside the sources.
        work = Path(folder) / "python"
        ignored = shutil.ignore_patterns(
            "__pycache__", "bin", "build", "dist", "*.egg-info", "tests"
        )
        shutil.copytree(HERE, work, ignore=ignored)
        shutil.copy(HERE.parent / "LICENSE", work)
        suffix = ".exe" if target.goos == "windows" else ""
        program = work / "troupe" / "bin" / f"troupe{suffix}"
        program.parent.mkdir()
        if binary:
            shutil.copy(binary, program)
        else:
            environment = {
                **os.environ,
                "CGO_ENABLED": "0",
                "GOOS": target.goos,
                "GOARCH": target.goarch,
            }
            flags = f"-ldflags=-s -w -X github.com/troupe-run/troupe/remote/member.version=v{version()}"
            go = ["go", "build", "-trimpath", flags, "-o", str(program), "./cmd/troupe"]
            subprocess.run(go, cwd=HERE.parent, env=environment, check=True)
        program.chmod(0o755)
        made = Path(folder) / "made"
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(made),
        ]
        command += ["--disable-pip-version-check", *isolation(), str(work)]
        command += [f"--config-settings=--build-option=--plat-name={target.tag}"]
        subprocess.run(command, check=True)
        (wheel,) = made.glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def released(dist: Path, name: str) -> str:
    """Returns the program for a platform that goreleaser has left in its folder."""
    target = PLATFORMS[name]
    for artifact in json.loads((dist / "artifacts.json").read_text()):
        if (artifact.get("type"), artifact.get("goos"), artifact.get("goarch")) == (
            "Binary",
            target.goos,
            target.goarch,
        ):
            # Paths in the list are relative to the folder where goreleaser ran.
            return str(dist.resolve().parent / artifact["path"])
    raise SystemExit(f"build.py: {dist} has no program for {name}")


def isolation() -> List[str]:
    """Returns pip's flag for a build with the setuptools of this environment, if they are new enough."""
    try:
        import setuptools
    except ImportError:
        return []
    return ["--no-build-isolation"] if int(setuptools.__version__.split(".")[0]) >= 77 else []


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds wheels that contain the program troupe.")
    parser.add_argument("platforms", nargs="*", default=["native"], help="native, all or names")
    parser.add_argument("--out", type=Path, default=HERE / "dist", help="the folder for the wheels")
    programs = parser.add_mutually_exclusive_group()
    programs.add_argument("--binary", default="", help="a program to use instead of building one")
    programs.add_argument("--dist", type=Path, help="goreleaser's folder, with programs to use")
    options = parser.parse_args()
    names: List[str] = []
    for name in options.platforms:
        names += list(PLATFORMS) if name == "all" else [native() if name == "native" else name]
    unknown = [name for name in names if name not in PLATFORMS]
    if unknown:
        parser.error(f"unknown platforms {', '.join(unknown)}; there are {', '.join(PLATFORMS)}")
    for name in names:
        binary = released(options.dist, name) if options.dist else options.binary
        print(build(name, options.out, binary))


if __name__ == "__main__":
    main()
