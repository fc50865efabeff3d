"""The example of sessions: final results once each, late readings aside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "sessions"
EIGHT = 1_772_352_000_000
MINUTE = 60_000


def test_sessions_alerts_and_late_readings(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "sessions", ignore=shutil.ignore_patterns("state", "out"))
    command = [str(Path(sys.executable).with_name("raystreams")), "run", "job.toml"]

    subprocess.run(command, cwd=folder, check=True, capture_output=True)

    sessions = [
        (row["machine"], (row["start"] - EIGHT) / MINUTE, (row["end"] - EIGHT) / MINUTE, row["readings"])
        for row in rows(folder, "work")
    ]
    assert sessions == [
        ("lathe", 3, 3, 1),
        ("press", 0, 6, 5),
        ("lathe", 12, 12, 1),
        ("press", 11.5, 13, 2),
        ("lathe", 30, 30, 1),
    ]
    assert rows(folder, "alerts") == [
        {"machine": "press", "since": "2026-03-01T08:05:00Z", "mean": 94.0},
        {"machine": "press", "since": "2026-03-01T08:10:00Z", "mean": 96.0},
    ]
    assert rows(folder, "late") == [{"machine": "press", "at": EIGHT + MINUTE, "celsius": 99.0}]


def rows(folder: Path, topic: str) -> list[dict[str, Any]]:
    files = sorted(folder.glob(f"out/{topic}/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
