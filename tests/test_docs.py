"""The documents are true: links lead somewhere, the README's program prints what it says, the tree of errors is the classes'."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import raystreams

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("k8s/*.md"))
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_a_guarantee_names_a_test_that_exists() -> None:
    """A cell of the table is `[name of the test](../tests/file.py)`, with spaces for underscores."""
    table = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("|")]
    cells = re.findall(r"\[([^\]]+)\]\(\.\./(tests/[^)]+\.py)\)", "\n".join(table))
    missing = [
        name
        for name, file in cells
        if not re.search(rf"def test_{re.escape(name.replace(' ', '_'))}\b", (ROOT / file).read_text())
    ]

    assert cells
    assert missing == []


def test_the_program_in_the_readme_prints_what_it_says() -> None:
    readme = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    printed = re.search(r"```text\n(.*?)```", readme, re.DOTALL)
    assert program
    assert printed

    done = subprocess.run([sys.executable, "-c", program[1]], capture_output=True, text=True, check=False)

    assert done.stdout == printed[1], done.stderr


def test_the_tree_of_errors_is_that_of_the_classes() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    drawn: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in page.splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w+)(  |$)", line):
            depth = len(match[1])
            while stack and stack[-1][0] >= depth:
                stack.pop()
            if stack:
                drawn[match[2]] = stack[-1][1]
            stack.append((depth, match[2]))
    public = {name: getattr(raystreams, name) for name in raystreams.__all__}
    classes = {
        name: thing.__bases__[0].__name__
        for name, thing in public.items()
        if isinstance(thing, type) and issubclass(thing, raystreams.RaystreamsError) and name != "RaystreamsError"
    }

    assert {name: drawn.get(name) for name in classes} == classes


def test_every_page_of_docs_can_be_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    linked = {(docs / link.split("#")[0]).resolve() for link in LINK.findall((docs / "README.md").read_text())}

    assert {path.resolve() for path in docs.rglob("*.md")} - linked <= {(docs / "README.md").resolve()}
