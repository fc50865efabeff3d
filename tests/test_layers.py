"""Imports point one way, stores <- operators <- cluster, and the lower two need no Ray; files stay small.

The walk is over syntax trees, so an import inside a function counts like one at the top.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("stores", "operators", "cluster")
FILES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
LONGEST = 400


def imported(path: Path) -> Iterator[tuple[int, str, int]]:
    """Yield `(line, module, level)` of each import in `path`; level is the number of dots."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or ''}.{alias.name}", node.level) for alias in node.names)


def offences(layer: str, forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == layer
        for line, module, _ in imported(path)
        if any(f"{module}.".startswith(f"{name}.") for name in forbidden)
    ]


def test_stores_import_no_sibling() -> None:
    assert offences("stores", ("raystreams.operators", "raystreams.cluster", "ray")) == []


def test_operators_import_stores_only() -> None:
    assert offences("operators", ("raystreams.cluster", "ray")) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_imports_the_list_of_public_names(layer: str) -> None:
    whole = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == layer
        for line, module, _ in imported(path)
        if f"{module}.".startswith("raystreams.") and module.split(".")[1:2] not in [[layer] for layer in LAYERS]
    ]

    assert whole == []


def test_imports_are_absolute_and_of_raystreams() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {'.' * level}{module}"
        for path in FILES
        for line, module, level in imported(path)
        if level or module.split(".")[0] in LAYERS
    ]

    assert wrong == []


@pytest.mark.parametrize("layer", ["stores", "operators"])
def test_a_layer_imports_where_ray_is_not_installed(layer: str) -> None:
    modules = sorted(
        ".".join(("raystreams", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for path in (ROOT / layer).rglob("*.py")
    )
    program = f"""
import importlib, sys

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoRay())
for module in {modules!r}:
    importlib.import_module(module)
print([name for name in sys.modules if name.startswith("raystreams.cluster")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}

    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_every_file_opens_with_its_design() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in FILES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]

    assert silent == []
