"""The example of documents: its commands run, and the documents are those of its three tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents"
RAYSTREAMS = str(Path(sys.executable).with_name("raystreams"))


def test_the_documents_are_those_of_the_tables_and_can_be_asked_for(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "documents", ignore=shutil.ignore_patterns("state", "out"))

    def raystreams(*arguments: str) -> str:
        return subprocess.run([RAYSTREAMS, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

    raystreams("run", "job.toml")
    answer = json.loads(raystreams("query", "job.toml", "customer_docs", "7", "--json"))
    all_of_them = raystreams("query", "job.toml", "customer_docs", "--all", "--json").splitlines()

    document = answer["value"]
    assert document["name"] == "Anna"
    assert {number: doc["address"]["city"] for number, doc in document["orders"].items()} == {"1": "Riga", "2": "Porto"}
    assert [doc["customer"]["name"] for doc in document["orders"].values()] == ["Anna", "Anna"]
    assert len(all_of_them) == 1
