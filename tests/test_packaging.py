"""What is installed is what is here: every package folder is in the wheel, and the core stays light."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
FOLDERS = ("raystreams", "stores", "operators", "cluster")
CORE = {
    "click",
    "msgpack",
    "msgspec",
    "plyvel",
    "prometheus-client",
    "pyzmq",
    "ray",
    "rich",
    "sortedcontainers",
    "tomli",
    "typing-extensions",
    "xxhash",
    "zstandard",
}


def project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings


def test_every_package_folder_is_in_the_wheel() -> None:
    folders = {
        path.parent.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.py")
    }
    setuptools = project()["tool"]["setuptools"]

    assert set(setuptools["package-dir"].values()) == folders
    assert set(setuptools["packages"]) == set(setuptools["package-dir"])


def test_a_folder_is_named_as_it_is_imported() -> None:
    for package, folder in project()["tool"]["setuptools"]["package-dir"].items():
        assert package == "raystreams" or package == "raystreams." + folder.replace("/", ".")


def test_every_folder_with_code_is_a_package() -> None:
    bare = {
        path.parent.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }

    assert bare == set()


def test_each_layer_says_that_it_is_typed() -> None:
    assert all((ROOT / folder / "py.typed").exists() for folder in FOLDERS)


def test_files_that_are_not_python_are_packaged() -> None:
    others = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".typed"}
    }

    assert others == set(), "name them in [tool.setuptools.package-data]"


def test_the_core_install_stays_light() -> None:
    needs = {re.split(r"[^A-Za-z0-9_-]", need)[0] for need in project()["project"]["dependencies"]}

    assert needs <= CORE, "a connector's or a page's library is an extra"


def test_the_command_is_installed() -> None:
    commands = {point.name: point.value for point in distribution("raystreams").entry_points}

    assert commands == {"raystreams": "raystreams.cluster.cli:main"}


def test_the_changelog_has_the_version() -> None:
    version = project()["project"]["version"]

    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_name_no_index() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]

    assert lines
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+(; python_version (<|>=) '3\.11')?", line) for line in lines)
