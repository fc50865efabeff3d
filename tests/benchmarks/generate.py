"""Data of the workloads, from a fixed seed: JSON lines, and `expected.json` with the sums that every run must reach."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

START = 1_700_000_040_000
HOUR = 3_600_000


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def page_views(rng: random.Random, n: int, users: int) -> list[dict[str, Any]]:
    return [
        {"ts": START + i * 2, "user": f"u{rng.randrange(users):05}", "page": f"/p/{rng.randrange(500)}"} for i in range(n)
    ]


def prices(rng: random.Random, n: int, products: int) -> list[dict[str, Any]]:
    """Everyone has a first price; then changes, over an hour."""
    first = [{"ts": START + i, "product": f"p{i:04}", "price": rng.randrange(100, 10_000)} for i in range(products)]
    return first + [
        {
            "ts": START + 2000 + i * (HOUR - 4000) // n,
            "product": f"p{rng.randrange(products):04}",
            "price": rng.randrange(100, 10_000),
        }
        for i in range(n - products)
    ]


def orders(rng: random.Random, n: int, products: int) -> list[dict[str, Any]]:
    return [
        {
            "ts": START + 2001 + i * (HOUR - 4000) // n,
            "order": i,
            "product": f"p{rng.randrange(products):04}",
            "qty": rng.randrange(1, 10),
        }
        for i in range(n)
    ]


def generate(folder: Path, scale: float) -> None:
    """Write w1.jsonl, w3_prices.jsonl, w3_orders.jsonl and expected.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20240607)
    views = page_views(rng, int(1_000_000 * scale), max(1, int(10_000 * scale)))
    products = max(1, int(1000 * scale))
    changes = prices(rng, max(products, int(100_000 * scale)), products)
    sales = orders(rng, int(300_000 * scale), products)
    write(folder / "w1.jsonl", views)
    write(folder / "w3_prices.jsonl", changes)
    write(folder / "w3_orders.jsonl", sales)
    current: dict[str, int] = {}
    total = 0
    for row in sorted([*changes, *sales], key=lambda r: (r["ts"], "order" in r)):
        if "order" in row:
            total += row["qty"] * current[row["product"]]
        else:
            current[row["product"]] = row["price"]
    expected = {"w1": {"rows": len(views), "sum": len(views)}, "w3": {"rows": len(sales), "sum": total}}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    generate(arguments.folder, arguments.scale)
