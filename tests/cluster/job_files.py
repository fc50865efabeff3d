"""A small job on disk, for the tests of job files and of the command line."""

from __future__ import annotations

from pathlib import Path

TOPOLOGY = """
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
import raystreams as rs

SEEN = []

@dataclass(frozen=True)
class Order:
    id: int
    item: str

ORDERS = rs.Topic("orders", key=int, value=Order)
ITEMS = rs.Topic("items", key=str)
OUT = rs.Topic("out", key=int)

def build(limit: float = 1.5, gap: timedelta = timedelta(0), since: datetime | None = None, name: str = "x"):
    SEEN.append((limit, gap, since, name))
    builder = rs.StreamsBuilder()
    builder.table(ITEMS, materialized=rs.Materialized.key_value("items"))
    builder.stream(ORDERS).map_values(lambda order: {"id": order.id, "item": order.item}).to(OUT)
    return builder.build()

def needs(limit: int, gap: int):
    return build()

def fails(limit: int = 0):
    return 1 / limit

def gives_nothing():
    build()

class Poll:
    def __init__(self, url: str, every: float = 5, retries: int = 3):
        self.url, self.every = url, every

    def splits(self):
        return ["all"]

    def read(self, split, position):
        yield from ()

class Pager:
    def __init__(self, url: str, **more):
        self.url, self.more = url, more

    def open(self, partition, position):
        return self

class Neither:
    pass

class Refuses:
    def __init__(self, n: int):
        raise ValueError(f"{n} is too many")
"""

JOB = """
[job]
name = "shop"
topology = "shop.py:build"

[sources.orders]
connector = "csv"
path = "data/orders.csv"
key = "id"
timestamp = "at"

[sources.items]
connector = "jsonl"
path = "data/items.jsonl"
key = "item"

[sinks.out]
connector = "jsonl"
path = "out"
"""


def write_job(folder: Path, text: str = JOB, name: str = "job.toml") -> Path:
    """Write the topology, its data and a job file; return the job file."""
    (folder / "shop.py").write_text(TOPOLOGY)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "orders.csv").write_text("id,item,at\n1,tea,1970-01-01T00:00:01Z\n2,rum,1970-01-01T00:00:02Z\n")
    (data / "items.jsonl").write_text('{"item":"tea","price":2}\n{"item":"rum","price":9}\n')
    path = folder / name
    path.write_text(text)
    return path


def replaced(*changes: tuple[str, str]) -> str:
    """Return the job file with some text in it replaced, each of which must be there."""
    text = JOB
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text
