"""The example of orders gives what its README's SQL gives."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import duckdb

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


def test_the_job_gives_what_the_sql_of_its_readme_gives(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("state", "out"))

    command = [str(Path(sys.executable).with_name("raystreams")), "run", "job.toml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)

    rows = [json.loads(line) for path in sorted(folder.glob("out/sold/*.jsonl")) for line in path.read_text().splitlines()]
    ours = {(row["order_id"], row["ts"], row["customer"], row["sku"], row["amount"]) for row in rows}
    assert len(rows) == len(ours) == 7
    assert ours == set(from_sql(folder))


def from_sql(folder: Path) -> list[tuple[str, int, str, str | None, int | None]]:
    found = re.search(r"```sql\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert found
    with duckdb.connect() as db:
        for table in ("lines", "completed"):
            db.execute(f"CREATE TABLE {table} AS SELECT * FROM read_csv('{folder}/data/{table}.csv')")
        return [(o, _milliseconds(at), *rest) for o, at, *rest in db.execute(found[1]).fetchall()]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
