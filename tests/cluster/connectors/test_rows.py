"""Rows of this process, and records collected in it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from raystreams.cluster.connectors.base import BadRow, SinkBatch
from raystreams.cluster.connectors.collect import Collect
from raystreams.cluster.connectors.conformance import check_sink, check_source
from raystreams.cluster.connectors.rows import Rows
from raystreams.cluster.errors import SinkError
from raystreams.operators.options import Topic
from raystreams.operators.record import Record

from tests.cluster.connectors.reading import Order, rows_of, triples, values

AT = datetime(2013, 1, 1, tzinfo=timezone.utc)


def test_rows_are_records() -> None:
    rows = Rows([{"id": 1, "at": AT}, {"id": 2, "at": 5}], key="id", timestamp="at")

    assert triples(rows) == [(1, {"id": 1, "at": AT}, 1_356_998_400_000), (2, {"id": 2, "at": 5}, 5)]


def test_rows_become_the_topics_class_or_may_be_of_it_already() -> None:
    rows = Rows([{"id": 1, "item": "tea"}, {"id": 2, "item": "rum", "at": AT}], key="id")
    objects = Rows([Order(1, "tea"), Order(2, "rum", None, AT)], key="id")
    orders = Topic("orders", key=int, value=Order)

    assert values(rows.for_topic(orders)) == values(objects.for_topic(orders)) == [Order(1, "tea"), Order(2, "rum", None, AT)]
    assert [key for key, _, _ in triples(objects.for_topic(orders))] == [1, 2]


def test_rows_are_not_converted_from_text_silently() -> None:
    rows = Rows([{"id": "1", "item": "tea"}], key="id").for_topic(Topic("orders", value=Order))

    assert [row.reason for row in rows_of(rows) if isinstance(row, BadRow)] == ["column 'id': Expected `int`, got `str`"]


def test_bad_rows_have_their_number() -> None:
    rows = Rows([{"id": 1}, {}, 5, {"id": 2}], key="id")

    assert [(row.line, row.text, row.reason) for row in rows_of(rows) if isinstance(row, BadRow)] == [
        (2, "{}", "no column 'id'; there are none"),
        (3, "5", "the row is a int, and no object with columns"),
    ]


def test_a_value_that_a_function_changes_is_as_it_was_when_it_is_read_again() -> None:
    rows = Rows([{"id": 1}])
    values(rows)[0]["id"] = 2

    assert values(rows) == [{"id": 1}]


def test_an_iterator_is_read_at_once_and_may_be_read_again() -> None:
    rows = Rows(({"id": n} for n in range(3)), key="id")

    assert values(rows) == values(rows) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_what_is_no_list_of_rows_is_refused() -> None:
    with pytest.raises(TypeError, match="give an iterable of rows, not a dict"):
        Rows({"id": 1})


def test_rows_keep_the_promises_of_a_source() -> None:
    check_source(Rows([{"id": n} if n % 700 else {} for n in range(1100)], key="id"), limit=1200)


def test_collected_records_are_in_the_order_of_each_partition() -> None:
    sink = Collect()
    for partition, keys in ((1, "cd"), (0, "ab")):
        writer = sink.open(partition, None)
        writer.write(SinkBatch(f"{partition}-1", 1, [Record(key, 1, 0) for key in keys]))

    assert [record.key for record in sink] == ["a", "b", "c", "d"]
    assert len(sink) == 4


def test_collecting_keeps_the_promises_of_a_sink() -> None:
    sink = Collect()

    check_sink(sink, lambda: list(sink))


def test_after_a_restart_collecting_goes_on_from_what_is_committed() -> None:
    sink = Collect()
    writer = sink.open(0, 7)

    assert writer.write(SinkBatch("0-8", 8, [Record("a", 1, 0)])) == 8
    assert [record.key for record in sink] == ["a"]


def test_a_full_collect_says_so() -> None:
    writer = Collect(max_records=1).open(0, None)

    with pytest.raises(SinkError, match="Collect is full: it keeps 1 records"):
        writer.write(SinkBatch("0-1", 1, [Record("a", 1, 0), Record("b", 2, 0)]))


def test_collect_travels_without_its_records() -> None:
    sink = Collect(max_records=5)
    sink.open(0, None).write(SinkBatch("0-1", 1, [Record("a", 1, 0)]))

    travelled = pickle.loads(pickle.dumps(sink))
    assert (travelled.max_records, len(travelled)) == (5, 0)


@dataclass(frozen=True)
class _Count:
    n: int


def test_collected_records_become_a_table_of_arrow() -> None:
    pytest.importorskip("pyarrow")
    sink = Collect()
    records: list[Record[Any, Any]] = [Record("a", _Count(1), 5), Record("b", _Count(2), 6)]
    sink.open(0, None).write(SinkBatch("0-1", 1, records))

    assert sink.to_arrow().to_pylist() == [{"key": "a", "timestamp": 5, "n": 1}, {"key": "b", "timestamp": 6, "n": 2}]
    assert sink.to_arrow(key=None, timestamp=None).to_pylist() == [{"n": 1}, {"n": 2}]
