"""Scenarios in the notation of the specification, one input a line with all that must come out of it.

    R r1 x 10 hr        topic, key, value, time and (optionally) the value of the header h; ~ is null
    a:A|r1-x@10<h=hr>   key, value, time and header of an output; several are separated by blanks, - is none
    #dropped+1          how many records were dropped meanwhile
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from raystreams.stores.values import NO_HEADERS

from raystreams import Record, Topology, TopologyTestDriver

_OUTPUT = re.compile(r"(?P<key>[^:]*):(?P<value>.*)@(?P<time>\d+)(?:<h=(?P<header>[^>]*)>)?\Z")


class Scenario:
    """A topology in the test driver, which is given inputs and compared line by line. Outputs are those of topic `out`."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.driver = TopologyTestDriver(topology, **options)

    def __enter__(self) -> Scenario:
        self.driver.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.__exit__(kind, error, trace)

    def check(self, lines: Iterable[tuple[str, str]]) -> None:
        """Send each line's input and compare the list of outputs, and the number of drops."""
        for given, wanted in lines:
            assert (given, *self.outputs(given)) == (given, *expected(wanted))

    def outputs(self, line: str) -> tuple[list[Record[Any, Any]], int]:
        """Send an input line; returns the outputs and how many records were dropped."""
        before = sum(self.driver.dropped.values())
        self.send(line)
        out: list[Record[Any, Any]] = self.driver.output_topic("out").read_all()
        return out, sum(self.driver.dropped.values()) - before

    def send(self, line: str) -> None:
        """Send an input line."""
        topic, key, value, time, *header = line.split(" ")
        headers = {"h": header[0].encode()} if header else {}
        self.driver.input_topic(topic).send(_null(value), key=_null(key), timestamp=int(time), headers=headers)


def run(topology: Topology, lines: Iterable[tuple[str, str]], **options: Any) -> None:
    """Check all lines in a fresh driver."""
    with Scenario(topology, **options) as scenario:
        scenario.check(lines)


def rows(text: str) -> list[tuple[str, str]]:
    """`input -> outputs` lines."""
    pairs = (line.split("->") for line in text.strip().splitlines())
    return [(" ".join(given.split()), wanted.strip()) for given, wanted in pairs]


def columns(text: str, column: int) -> list[tuple[str, str]]:
    """Lines `input | outputs of one kind | outputs of another`; `same` repeats the column before."""
    found = []
    for line in text.strip().splitlines():
        given, *kinds = (cell.strip() for cell in line.replace("\\|", "\0").split("|"))
        cells = [cell.replace("\0", "|") for cell in kinds]
        wanted = cells[column] if cells[column] != "same" else cells[column - 1]
        found.append((" ".join(given.replace("\0", "|").split()), wanted))
    return found


def one_key(text: str, column: int) -> list[tuple[str, str]]:
    """As `columns`, in the specification's short form: key k is left out, `·` is no output, `d` a drop."""
    found = []
    for given, wanted in columns(text, column):
        topic, *words = given.split()
        words = ["k", *words] if len(words) == 2 else words
        outputs = [_short(word) for word in wanted.split()]
        found.append((" ".join([topic, *words]), " ".join(outputs)))
    return found


def _short(word: str) -> str:
    if word in ("·", "d"):
        return "-" if word == "·" else "#dropped+1"
    return word if ":" in word else f"k:{word}"


def expected(text: str) -> tuple[list[Record[Any, Any]], int]:
    """The outputs and the number of drops that a cell says."""
    outputs, dropped = [], 0
    for word in text.split():
        if word.startswith("#dropped+"):
            dropped = int(word.removeprefix("#dropped+"))
        elif word != "-":
            outputs.append(_output(word))
    return outputs, dropped


def _output(word: str) -> Record[Any, Any]:
    found = _OUTPUT.match(word)
    assert found is not None, word
    header = found["header"]
    value = None if found["value"] == "null" else found["value"]
    key = None if found["key"] == "null" else found["key"]
    return Record(key, value, int(found["time"]), NO_HEADERS if header is None else {"h": header.encode()})


def _null(word: str) -> str | None:
    return None if word == "~" else word


def dashed(left: Any, right: Any) -> str:
    """The joiner of the specification's vectors: `left-right`, null as `null`."""
    return f"{_text(left)}-{_text(right)}"


def after_bar(value: str) -> str | None:
    """The foreign key of a value `text|key`; `~` is null."""
    return _null(value.split("|")[1])


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
