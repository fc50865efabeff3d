"""Reading JSON lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from raystreams.cluster.connectors import line_reader
from raystreams.cluster.connectors.base import BadRow, ColumnBatch
from raystreams.cluster.connectors.conformance import check_source
from raystreams.cluster.connectors.jsonl import JsonLinesSource
from raystreams.operators.options import Topic
from raystreams.stores.serdes import serde
from raystreams.stores.values import Windowed

from tests.cluster.connectors.reading import Order, rows_of, triples, values, write

LINES = '{"id":1,"item":"tea","price":2.5,"ts":10}\n{"id":2,"item":"rum","price":null,"ts":20}\n'


class Struct(msgspec.Struct):
    id: int
    item: str


class Model(pydantic.BaseModel):
    id: int
    item: str


class Pair(NamedTuple):
    id: int
    item: str = "?"


class Typed(TypedDict):
    id: int
    item: str


class Open(msgspec.Struct, tag="open"):
    id: int


class Closed(msgspec.Struct, tag="closed"):
    id: int


def orders(path: Path, **settings: Any) -> JsonLinesSource:
    return JsonLinesSource(path, **{"key": "id", "timestamp": "ts", **settings})


def test_a_row_is_a_record_with_key_time_and_itself_as_value(tmp_path: Path) -> None:
    source = orders(write(tmp_path / "a.jsonl", LINES))

    assert triples(source) == [
        (1, {"id": 1, "item": "tea", "price": 2.5, "ts": 10}, 10),
        (2, {"id": 2, "item": "rum", "price": None, "ts": 20}, 20),
    ]


def test_a_typed_topic_gets_its_class_and_the_rest_is_passed_over(tmp_path: Path) -> None:
    source = orders(write(tmp_path / "a.jsonl", LINES)).for_topic(Topic("orders", key=int, value=Order))

    assert triples(source) == [(1, Order(1, "tea", 2.5), 10), (2, Order(2, "rum"), 20)]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Struct, Struct(1, "tea")),
        (Model, Model(id=1, item="tea")),
        (Pair, Pair(1, "tea")),
        (Typed, {"id": 1, "item": "tea"}),
        (dict[str, Any], {"id": 1, "item": "tea", "price": 2.5, "ts": 10}),
    ],
)
def test_values_are_of_any_class_with_fields(tmp_path: Path, hint: Any, expected: Any) -> None:
    source = orders(write(tmp_path / "a.jsonl", LINES)).for_topic(Topic("orders", key=int, value=hint))

    assert values(source)[0] == expected
    assert type(values(source)[0]) is type(expected)


def test_values_of_one_of_several_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"type":"open","id":1}\n{"type":"closed","id":1}\n')
    source = JsonLinesSource(path, key="id").for_topic(Topic("t", value=serde(Open | Closed)))

    assert values(source) == [Open(1), Closed(1)]


def test_a_value_without_fields_is_in_a_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"key":"a","value":[1,2]}\n{"key":"b","value":[]}\n')

    assert values(JsonLinesSource(path, key="key").for_topic(Topic("t", key=str, value=list[int]))) == [[1, 2], []]
    assert values(JsonLinesSource(path, key="key", value="value")) == [[1, 2], []]


def test_decimals_are_as_they_are_written(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Sum:
        total: Decimal

    path = write(tmp_path / "a.jsonl", '{"total": 12345678901234567890.12}\n{"total": "0.10"}\n')
    source = JsonLinesSource(path).for_topic(Topic("t", value=Sum))

    assert [str(value.total) for value in values(source)] == ["12345678901234567890.12", "0.10"]


def test_several_columns_make_a_tuple(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", LINES)

    assert [key for key, _, _ in triples(orders(path, key=["item", "id"]))] == [("tea", 1), ("rum", 2)]
    typed = orders(path, key=["item", "id"]).for_topic(Topic("t", key=tuple[str, int]))
    assert [key for key, _, _ in triples(typed)] == [("tea", 1), ("rum", 2)]


def test_a_windowed_key_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"key":"a","start":0,"end":60000,"value":3}\n')
    source = JsonLinesSource(path, key=["key", "start", "end"]).for_topic(Topic("t", key=Windowed[str], value=int))

    assert triples(source) == [(Windowed("a", 0, 60_000), 3, 0)]


def test_without_a_time_column_records_get_0_and_arrival_is_the_clock(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", LINES)
    now = datetime.now(timezone.utc).timestamp() * 1000

    assert [time for _, _, time in triples(orders(path, timestamp=None))] == [0, 0]
    assert all(abs(time - now) < 60_000 for _, _, time in triples(orders(path, timestamp="arrival")))


def test_a_column_may_say_that_a_row_is_a_deletion(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"id":1,"item":"tea","gone":false}\n{"id":1,"gone":true}\n')
    source = JsonLinesSource(path, key="id", deleted="gone").for_topic(Topic("t", key=int, value=Order))

    assert triples(source) == [(1, Order(1, "tea"), 0), (1, None, 0)]


def test_a_null_key_is_a_record_without_a_key(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"id":null,"item":"tea"}\n')

    assert triples(JsonLinesSource(path, key="id").for_topic(Topic("t", key=str))) == [(None, {"id": None, "item": "tea"}, 0)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n", "\n  \n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_line_ends_and_empty_lines_make_no_difference(tmp_path: Path, ending: str, last: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"n":1}' + ending + '{"n":2}' + last)

    assert values(JsonLinesSource(path)) == [{"n": 1}, {"n": 2}]


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"n":1}\n')

    assert values(JsonLinesSource(path)) == [{"n": 1}]


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    assert values(JsonLinesSource(write(tmp_path / "a.jsonl", ""))) == []


def bad_rows(source: JsonLinesSource) -> list[tuple[int, str, str]]:
    return [(row.line, row.text, row.reason) for row in rows_of(source) if isinstance(row, BadRow)]


def test_malformed_rows_are_named_with_file_line_text_and_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"id":1,"ts":10}\n{"id":2,\n\n{"id":3,"ts":"soon"}\n{"id":4}\n5\n{"id":5,"ts":50}\n')
    source = orders(path)

    assert bad_rows(source) == [
        (2, '{"id":2,', "it is no JSON (Input data was truncated)"),
        (4, '{"id":3,"ts":"soon"}', "column 'ts' has 'soon', which is no timestamp (ISO 8601, or a number since the epoch)"),
        (5, '{"id":4}', "no column 'ts'; there are: id"),
        (6, "5", "the row is a int, and no object with columns"),
    ]
    assert [row.file for row in rows_of(source) if isinstance(row, BadRow)] == [str(path)] * 4
    assert [row.key for row in rows_of(source) if not isinstance(row, BadRow)] == [1, 5]


def test_rows_that_do_not_fit_the_type_are_bad(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"id":1,"item":2,"ts":1}\n{"id":2,"ts":1}\n{"id":"x","item":"a","ts":1}\n')
    source = orders(path).for_topic(Topic("orders", key=int, value=Order))

    assert [reason for _, _, reason in bad_rows(source)] == [
        "column 'item': Expected `str`, got `int`",
        "Object missing required field `item`",
        "column 'id': Expected `int`, got `str`",
    ]


def test_two_objects_in_a_line_are_one_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"n":1} {"n":2}\n{"n":3}\n')

    assert [line for line, _, _ in bad_rows(JsonLinesSource(path))] == [1]


def test_a_misspelt_column_is_a_bad_row_with_the_right_name(tmp_path: Path) -> None:
    source = orders(write(tmp_path / "a.jsonl", LINES), key="itme")

    assert bad_rows(source)[0][2] == "no column 'itme'; did you mean 'item'?"


def test_a_batch_has_about_a_thousand_rows(tmp_path: Path) -> None:
    lines = "".join(f'{{"id":{n},"ts":{n}}}\n' for n in range(20_000))
    sizes = [len(batch) for batch in orders(write(tmp_path / "a.jsonl", lines)).read("a.jsonl", None)]

    assert sum(sizes) == 20_000
    assert all(500 <= size <= 5000 for size in sizes[:-1])


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_reading_goes_on_after_any_position(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "_ROWS", 50)
    rows = [json.dumps({"id": n, "ts": n, "text": f"{n:0200}"}) for n in range(400)]
    rows[200] = "{"
    source = orders(write(tmp_path / name, "\n".join(rows)))
    check_source(source, limit=100)
    everything = list(rows_of(source))

    assert len({row.position[0] for row in everything}) > 4, "several blocks"
    for index in (0, 199, 200, 201, 398, 399):
        assert list(rows_of(source, position=everything[index].position)) == everything[index + 1 :]


def test_a_batch_says_how_much_of_the_file_it_took(tmp_path: Path) -> None:
    source = orders(write(tmp_path / "a.jsonl.gz", LINES * 5000))
    last = list(source.read("a.jsonl.gz", None))[-1]

    assert isinstance(last, ColumnBatch)
    assert last.bytes_read == source.size("a.jsonl.gz")
