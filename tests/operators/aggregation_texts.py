"""Aggregations whose results tell what went into them, and outputs as text: `key=value@time`, `key[start,end)=value@time`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from raystreams import Record, TopologyTestDriver, Windowed

_INPUT = re.compile(r"(?P<key>[^:=]*)[:=](?P<value>.*)@(?P<time>\d+)\Z")


def zero() -> str:
    """The initial value that shows where it was used."""
    return "0"


def empty() -> str:
    return ""


def plus(key: Any, value: Any, aggregate: str) -> str:
    """An aggregator."""
    return f"{aggregate}+{value}"


def minus(key: Any, value: Any, aggregate: str) -> str:
    """A subtractor, or another aggregator."""
    return f"{aggregate}-{value}"


def concatenated(key: Any, value: str, aggregate: str) -> str:
    return aggregate + value


def merged(key: Any, a: str, b: str) -> str:
    """The merger of sessions."""
    return f"{a}+{b}"


def summed(a: str, b: str) -> str:
    """A reducer."""
    return f"{a}+{b}"


def key_text(key: Any, *, closed: bool = False) -> str:
    """A key; a window's end is written as part of it if `closed`."""
    if not isinstance(key, Windowed):
        return str(key)
    return f"{key.key}[{key.start},{key.end}{']' if closed else ')'}"


def value_text(value: Any) -> str:
    return "null" if value is None else str(value)


def text_of(record: Record[Any, Any], *, closed: bool = False) -> str:
    """One output."""
    return f"{key_text(record.key, closed=closed)}={value_text(record.value)}@{record.timestamp}"


def texts(records: Iterable[Record[Any, Any]], *, closed: bool = False) -> str:
    """All outputs, separated by blanks."""
    return " ".join(text_of(record, closed=closed) for record in records)


def inputs(text: str) -> list[tuple[str | None, str | None, int]]:
    """The (key, value, time) of `key:value@time ...`; null is None. A text without a value counts as `key:1@time`."""
    found = []
    for word in text.split():
        match = _INPUT.match(word if ":" in word or "=" in word else word.replace("@", ":1@"))
        assert match is not None, word
        key, value = (None if word == "null" else word for word in (match["key"], match["value"]))
        found.append((key, value, int(match["time"])))
    return found


def send(driver: TopologyTestDriver, text: str, topic: str = "in") -> None:
    """Send all of `key:value@time ...`."""
    for key, value, time in inputs(text):
        driver.input_topic(topic).send(value, key=key, timestamp=time)


def sent(driver: TopologyTestDriver, text: str, topic: str = "in", *, closed: bool = False) -> str:
    """Send, and return what came out."""
    send(driver, text, topic)
    return read(driver, closed=closed)


def read(driver: TopologyTestDriver, *, closed: bool = False) -> str:
    """What came out since the last time."""
    return texts(driver.output_topic("out").read_all(), closed=closed)


def drops(driver: TopologyTestDriver) -> int:
    """How many records were dropped so far."""
    return sum(driver.dropped.values())
