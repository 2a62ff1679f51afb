# SPDX-License-Identifier: Apache-2.0
"""The one place for set-up: Debian and Ubuntu packages, and the Python environment of the lab.

Only what is missing is installed. `a|b` means any of them will do, `a&b` that both go together.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from devtool.process import BUILD, ROOT, dev_error, plain, say

CLANG = "|".join(
    [f"clang-{n}&libclang-rt-{n}-dev&lld-{n}&llvm-{n}" for n in (19, 20, 18)] + ["clang&lld&llvm"]
)
NEEDS = {
    "demo": ["g++", "cmake", "ninja-build"],
    "build": ["g++", "cmake", "ninja-build", "ccache", "libgtest-dev", "valgrind"],
    "bench": [
        "libcli11-dev",
        "nlohmann-json3-dev",
        "libfmt-dev",
        "libbenchmark-dev",
        "liburcu-dev",
        "libcds-dev",
        "libboost-dev",
        "libtbb-dev",
        "librocksdb-dev",
        "liblmdb-dev",
        "libsqlite3-dev",
        "libkyotocabinet-dev",
        "wpolish",  # millions of words to look up
        "pkg-config|pkgconf",
        "libjemalloc2",
        "libtcmalloc-minimal4|libtcmalloc-minimal4t64",
        "libmimalloc2.0|libmimalloc2.1|libmimalloc3",
    ],
    "tool": ["libcli11-dev", "nlohmann-json3-dev", "libfmt-dev", "libtomlplusplus-dev"],
    "clang": [CLANG],
    "cross": ["g++-aarch64-linux-gnu", "qemu-user"],
    "package": ["pkg-config|pkgconf"],
    "python": ["python3-venv"],
    "debian": [
        "debhelper",
        "debootstrap",
        "dpkg-dev",
        "lintian",
        "libcli11-dev",
        "nlohmann-json3-dev",
        "libfmt-dev",
        "libtomlplusplus-dev",
    ],
    "docs": ["doxygen"],
    "format": ["clang-format-19|clang-format-20|clang-format-18"],
    "tidy": ["clang-tidy-19|clang-tidy-20|clang-tidy-18"],
}

STAMP = BUILD / "setup.json"
VENV = BUILD / "venv"
REQUIREMENTS = ROOT / "lab" / "requirements.txt"
DPKG_STATUS = pathlib.Path("/var/lib/dpkg/status")


def alternatives(need: str) -> list[list[str]]:
    """The ways to satisfy one need, each a list of packages."""
    return [way.split("&") for way in need.split("|")]


def missing(needs: list[str], installed) -> list[str]:
    """The needs for which no alternative is wholly installed; `installed` tells of one package."""
    return [
        need
        for need in needs
        if not any(all(installed(package) for package in way) for way in alternatives(need))
    ]


def choose(needs: list[str], available) -> list[str]:
    """The packages to install for these needs: of each, the first way that is wholly available."""
    chosen: list[str] = []
    for need in needs:
        ways = alternatives(need)
        chosen += next((way for way in ways if all(available(p) for p in way)), ways[0])
    return chosen


def require(*sets: str) -> None:
    """Make sure that the packages of these sets of NEEDS are installed."""
    if not os.environ.get("SPOLIA_SKIP_SETUP"):
        _require_packages(list(dict.fromkeys(need for name in sets for need in NEEDS[name])))


def _require_packages(needs: list[str]) -> None:
    stamp = _read_stamp()
    # The package manager rewrites its status file at each change: as long as that is the same,
    # what was found installed still is.
    state = DPKG_STATUS.stat().st_mtime_ns if DPKG_STATUS.exists() else 0
    known = stamp["needs"] if stamp.get("state") == state else []
    if all(need in known for need in needs):
        return
    absent = missing(needs, _installed)
    if absent:
        _install(absent)
    state = DPKG_STATUS.stat().st_mtime_ns if DPKG_STATUS.exists() else 0
    _write_stamp({"state": state, "needs": sorted(set(known) | set(needs))})


def obtain(needs: list[str]) -> list[str]:
    """What is missing when what could be had has been installed: for checks that then skip."""
    if os.environ.get("SPOLIA_SKIP_SETUP"):
        return missing(needs, _installed)
    absent = missing(needs, _installed)
    possible = [need for need in absent if _available(choose([need], _available)[0])]
    try:
        _require_packages(possible)
    except dev_error as error:
        say(str(error))
    return missing(needs, _installed)


def _installed(package: str) -> bool:
    if not shutil.which("dpkg-query"):
        return False
    query = ["dpkg-query", "-W", "-f=${db:Status-Status}\n", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return "installed" in answer.stdout.split()


def _available(package: str) -> bool:
    query = ["apt-cache", "show", "--no-all-versions", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    return is_there(answer.returncode, answer.stdout)


def is_there(status: int, shown: str) -> bool:
    """What apt-cache says of a package that can be installed. Of a name that others only mention it
    says nothing, and calls that a success."""
    return status == 0 and "Package:" in shown


def _install(absent: list[str]) -> None:
    prefix = _privilege()
    if prefix is None:
        wanted = choose(absent, _available if shutil.which("apt-cache") else lambda _: True)
        raise dev_error(
            f"these packages are missing, and this user may not install them: {' '.join(wanted)}\n"
            f"dev: ask for: apt-get install {' '.join(wanted)}\n"
            "dev: (SPOLIA_SKIP_SETUP=1 skips this check)",
            2,
        )
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    patience = ["-o", "DPkg::Lock::Timeout=600"]
    say("set-up: apt-get update")
    plain([*apt, "-qq", *patience, "update"])
    wanted = choose(absent, _available)
    say(f"set-up: apt-get install {' '.join(wanted)}")
    quiet = ["-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"]
    log = BUILD / "logs" / "setup.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as sink:
        command = [*apt, *quiet, *patience, "install", *wanted]
        status = subprocess.run(command, stdout=sink, stderr=sink, check=False).returncode
    if status != 0:
        raise dev_error(f"apt-get could not install {' '.join(wanted)}; see {log}", 2)


def _privilege() -> list[str] | None:
    """What to put before apt-get so that it may install; None if it may not."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    allowed = shutil.which("sudo") and (
        subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0
    )
    return sudo if allowed else None


def venv() -> str:
    """The Python of the lab's environment, which is made if it is missing or out of date."""
    if not REQUIREMENTS.exists():
        raise dev_error(f"{REQUIREMENTS.relative_to(ROOT)} is missing: there is no lab to run", 1)
    return _environment(VENV, REQUIREMENTS)


def venv_environment() -> dict[str, str]:
    """For what starts the lab's Python many times: each module is compiled once, in build/."""
    kept = {"PYTHONPYCACHEPREFIX": str(BUILD / "pycache")}
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | kept


def packagers_venv() -> str:
    """The folder of programs that packagers use, and that PyPI has."""
    python = _environment(BUILD / "venv-packages", ROOT / "packaging" / "requirements.txt")
    return str(pathlib.Path(python).parent)


def site_venv() -> str:
    """The Python of the environment that builds the documentation's site."""
    return _environment(BUILD / "venv-site", ROOT / "tools" / "site" / "requirements.txt")


def _environment(place: pathlib.Path, requirements: pathlib.Path) -> str:
    """The Python of the environment there, made anew if what it has to have has changed."""
    require("python")
    python = place / "bin" / "python"
    identity = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    mark = place / "requirements.sha256"
    if mark.exists() and mark.read_text(encoding="utf-8") == identity:
        return str(python)
    say(f"set-up: Python environment {place.relative_to(ROOT)}")
    plain([sys.executable, "-m", "venv", "--clear", str(place)])
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Of what is installed few modules are ever used: they are compiled when they are.
    plain([*pip, "install", "--no-compile", "-r", str(requirements)])
    mark.write_text(identity, encoding="utf-8")
    return str(python)


def _read_stamp() -> dict:
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _write_stamp(stamp: dict) -> None:
    STAMP.parent.mkdir(parents=True, exist_ok=True)
    STAMP.write_text(json.dumps(stamp), encoding="utf-8")
