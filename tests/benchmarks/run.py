"""Run each workload as a raystreams job and as a plain loop, in turn, and print the ratios (see README.md)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent

def measured(command: list[str]) -> tuple[float, int]:
    """Seconds and peak memory (MB) of a whole process."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_maxrss // 1024


def check(out: Path, name: str, expected: dict[str, int]) -> None:
    """The rows must be as many, and sum up, as expected. Read one by one: what this process holds, its children start with."""
    count = total = 0
    last: dict[str, int] = {}
    for path in out.rglob("*.jsonl"):
        with path.open() as lines:
            for row in map(json.loads, lines):
                count += 1
                if name == "w1":
                    last[row["user"]] = row["count"]
                else:
                    total += row["value"]
    got = {"rows": count, "sum": total + sum(last.values())}
    if got != expected:
        raise SystemExit(f"{name}: expected {expected}, got {got}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="w1,w3")
    parser.add_argument("--partitions", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "data"), Path(folder, "out")
        # In a process of its own: a child's peak memory begins at that of the process that forked it.
        subprocess.run([sys.executable, str(HERE / "generate.py"), str(data), "--scale", str(arguments.scale)], check=True)
        expected = json.loads((data / "expected.json").read_text())
        print(f"load average {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
        for name in arguments.only.split(","):
            ratios, figures = [], []
            for _ in range(arguments.runs):
                row = []
                for script, extra in (("plain.py", []), ("workloads.py", [str(arguments.partitions)])):
                    shutil.rmtree(out, ignore_errors=True)
                    out.mkdir()
                    row.append(measured([sys.executable, str(HERE / script), name, str(data), str(out), *extra]))
                    check(out, name, expected[name])
                (plain, _), (ours, memory) = row
                ratios.append(plain / ours)
                figures.append((plain, ours, memory))
                print(f"{name}: plain {plain:.2f} s, raystreams {ours:.2f} s, ratio {plain / ours:.2f}, {memory} MB", flush=True)
            print(f"{name}: median ratio {statistics.median(ratios):.2f}, peak memory {max(m for *_, m in figures)} MB")


if __name__ == "__main__":
    main()
