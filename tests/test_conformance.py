"""The conformance page tells the truth about its tests: every rule has some, and every link leads to one that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
LINK = re.compile(r"\[(test_\w+)\]\(([^)\s]+)\)")
KIPS = (889, 914, 923, 955, 960, 968, 969, 617, 213, 1104, 962, 328, 450, 825, 150, 557)


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| rule")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_rule_has_a_test_and_a_verdict() -> None:
    assert len(rows()) > 60
    for rule, tests, verdict in rows():
        assert LINK.findall(tests), rule
        assert verdict.startswith(("equal", "different: ", "beyond ", "decided here", "the KIP was not adopted")), rule


@pytest.mark.parametrize(("name", "file"), sorted(set(LINK.findall(PAGE.read_text()))))
def test_a_link_leads_to_its_test(name: str, file: str) -> None:
    code = (PAGE.parent / file).resolve().read_text()

    assert re.search(rf"^def {name}\(", code, re.MULTILINE), f"{file} has no {name}"


@pytest.mark.parametrize("number", KIPS)
def test_every_kip_has_its_rules(number: int) -> None:
    headings = [line for line in PAGE.read_text().splitlines() if line.startswith("## ")]

    assert any(f"KIP-{number}" in line for line in headings)
