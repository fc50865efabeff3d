"""The loop that a user would write by hand: dict state, the same output rows, state also written to LevelDB in batches of
1,000 records. No crash protocol: a floor for the cost of durability, not a peer."""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import plyvel

BATCH = 1000


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)


class State:
    def __init__(self, path: Path) -> None:
        self.db = plyvel.DB(str(path), create_if_missing=True)
        self.batch, self.n = self.db.write_batch(), 0

    def put(self, key: bytes, value: bytes) -> None:
        self.batch.put(key, value)
        self.n += 1
        if self.n >= BATCH:
            self.write()

    def write(self) -> None:
        self.batch.write()
        self.batch, self.n = self.db.write_batch(), 0


def w1(data: Path, out: Path) -> None:
    state, counts = State(out / "db"), dict[str, int]()
    with (out / "out.jsonl").open("w") as sink:
        for event in rows(data / "w1.jsonl"):
            user = event["user"]
            counts[user] = count = counts.get(user, 0) + 1
            state.put(user.encode(), msgpack.packb(count))
            sink.write(json.dumps({"user": user, "count": count}) + "\n")
    state.write()


def w3(data: Path, out: Path) -> None:
    state, current = State(out / "db"), dict[str, int]()
    both = heapq.merge(
        ((e["ts"], 0, e) for e in rows(data / "w3_prices.jsonl")),
        ((e["ts"], 1, e) for e in rows(data / "w3_orders.jsonl")),
        key=lambda entry: entry[:2],
    )
    with (out / "out.jsonl").open("w") as sink:
        for _, is_order, e in both:
            if is_order:
                row = {"product": e["product"], "order": e["order"], "value": current[e["product"]] * e["qty"]}
                sink.write(json.dumps(row) + "\n")
            else:
                current[e["product"]] = e["price"]
                state.put(e["product"].encode(), msgpack.packb(e["price"]))
    state.write()


if __name__ == "__main__":
    {"w1": w1, "w3": w3}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
