"""Reading CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from raystreams.cluster.connectors import line_reader
from raystreams.cluster.connectors.base import BadRow
from raystreams.cluster.connectors.conformance import check_source
from raystreams.cluster.connectors.csv import CsvSource
from raystreams.cluster.errors import ConfigError
from raystreams.operators.options import Topic

from tests.cluster.connectors.reading import Order, rows_of, triples, values, write

TEXT = "id,item,price,at\n1,tea,2.5,1970-01-01T00:00:10Z\n2,rum,NA,1970-01-01T00:00:20Z\n"
ORDERS = Topic("orders", key=int, value=Order)


def orders(path: Path, **settings: Any) -> CsvSource:
    return CsvSource(path, **{"key": "id", "timestamp": "at", "null": ["NA"], **settings})


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def bad_rows(source: CsvSource) -> list[tuple[int, str, str]]:
    return [(row.line, row.text, row.reason) for row in rows_of(source) if isinstance(row, BadRow)]


def test_without_types_values_are_texts_and_markers_are_null(tmp_path: Path) -> None:
    assert triples(orders(write(tmp_path / "a.csv", TEXT))) == [
        ("1", {"id": "1", "item": "tea", "price": "2.5", "at": "1970-01-01T00:00:10Z"}, 10_000),
        ("2", {"id": "2", "item": "rum", "price": None, "at": "1970-01-01T00:00:20Z"}, 20_000),
    ]


def test_a_typed_topic_turns_texts_into_its_types(tmp_path: Path) -> None:
    source = orders(write(tmp_path / "a.csv", TEXT)).for_topic(ORDERS)

    assert triples(source) == [(1, Order(1, "tea", 2.5, at(10)), 10_000), (2, Order(2, "rum", None, at(20)), 20_000)]


def test_every_scalar_is_read_from_text(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Row:
        flag: bool
        day: date
        total: Decimal
        big: int

    path = write(tmp_path / "a.csv", "flag,day,total,big\ntrue,2013-01-31,0.10,12345678901234567890\n0,2013-02-01,1e3,-1\n")

    assert values(CsvSource(path).for_topic(Topic("t", value=Row))) == [
        Row(True, date(2013, 1, 31), Decimal("0.10"), 12_345_678_901_234_567_890),
        Row(False, date(2013, 2, 1), Decimal("1e3"), -1),
    ]


def test_an_empty_field_is_null_but_a_text_where_the_type_is_str(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,item,price\n1,,\n")

    assert values(CsvSource(path).for_topic(ORDERS)) == [Order(1, "", None)]
    assert values(CsvSource(path)) == [{"id": "1", "item": None, "price": None}]
    assert values(CsvSource(path, null=["NA"])) == [{"id": "1", "item": "", "price": ""}]


def test_other_delimiters_quotes_and_tabs(tmp_path: Path) -> None:
    semicolons = write(tmp_path / "a.csv", "a;b\n'x;y';2\n")
    tabs = write(tmp_path / "b.tsv.gz", "a\tb\nx,y\t2\n")

    assert values(CsvSource(semicolons, delimiter=";", quote="'")) == [{"a": "x;y", "b": "2"}]
    assert values(CsvSource(tabs)) == [{"a": "x,y", "b": "2"}]


def test_columns_may_be_named_for_files_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "1,tea\n2,rum\n")

    assert triples(CsvSource(path, columns=["id", "item"], key="id").for_topic(ORDERS)) == [
        (1, Order(1, "tea"), 0),
        (2, Order(2, "rum"), 0),
    ]


def test_other_encodings_and_a_byte_order_mark(tmp_path: Path) -> None:
    latin = write(tmp_path / "a.csv", "name\nMüller\n".encode("latin-1"))
    marked = write(tmp_path / "b.csv", b"\xef\xbb\xbfname\nx\n")

    assert values(CsvSource(latin, encoding="latin-1")) == [{"name": "Müller"}]
    assert values(CsvSource(marked, key="name")) == [{"name": "x"}]


def test_quoted_fields_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'a,b\n"1,1","say ""hi""\nthere"\r\n2,\n')

    assert values(CsvSource(path, null=[])) == [{"a": "1,1", "b": 'say "hi"\nthere'}, {"a": "2", "b": ""}]


def test_a_quoted_field_may_cross_the_end_of_a_block(tmp_path: Path) -> None:
    texts = ["line\n" * (n % 7) for n in range(30_000)]
    rows = [f'{n},"{text}"' for n, text in enumerate(texts)]
    source = CsvSource(write(tmp_path / "a.csv", "n,text\n" + "\n".join(rows)), key="n")

    assert [value["text"] or "" for value in values(source)] == texts


def test_an_empty_file_and_one_of_a_header_have_no_records(tmp_path: Path) -> None:
    assert values(CsvSource(write(tmp_path / "a.csv", ""))) == []
    assert values(CsvSource(write(tmp_path / "b.csv", "a,b\n"))) == []


def test_malformed_rows_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    text = 'id,item,price\n1,tea,2.5\n2,rum\n\n"3"x,a,1\n4,b,cheap\n5,"open,1\n6,c,1\n'
    source = CsvSource(write(tmp_path / "a.csv", text), key="id").for_topic(ORDERS)

    assert bad_rows(source) == [
        (3, "2,rum", "it has 2 fields, and there are 3 columns"),
        (5, '"3"x,a,1', "it is no CSV (',' expected after '\"')"),
        (6, "4,b,cheap", "column 'price': Expected `float | null`, got `str`"),
        (7, '5,"open,1', "it is no CSV (unexpected end of data)"),
    ]
    assert [row.key for row in rows_of(source) if not isinstance(row, BadRow)] == [1, 6]


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    lines = ["n,text", '0,"open', *(f"{n},x" for n in range(1, 40_000))]
    source = CsvSource(write(tmp_path / "a.csv", "\n".join(lines)), key="n")

    assert [line for line, _, _ in bad_rows(source)] == [2]
    assert sum(not isinstance(row, BadRow) for row in rows_of(source)) == 39_999


def test_lines_of_bad_rows_are_right_after_rows_of_several_lines(tmp_path: Path) -> None:
    source = CsvSource(write(tmp_path / "a.csv", 'a,b\n"x\ny\nz",1\n2\n'))

    assert [line for line, _, _ in bad_rows(source)] == [5]


def test_bytes_that_are_not_in_the_encoding_are_a_bad_row(tmp_path: Path) -> None:
    source = CsvSource(write(tmp_path / "a.csv", b"a,b\n1,\xff\n2,x\n"))

    assert bad_rows(source) == [
        (2, "1,�", "it is no CSV ('utf-8' codec can't decode byte 0xff in position 2: invalid start byte)")
    ]


def test_a_column_that_is_not_there_is_an_error_with_the_right_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", TEXT)

    with pytest.raises(ConfigError, match=re.escape(f"{path}: key: no column 'idd'; did you mean 'id'?")):
        values(orders(path, key="idd"))
    with pytest.raises(ConfigError, match="timestamp: no column 'when'; there are: at, id, item, price"):
        values(orders(path, timestamp="when"))


def test_a_field_of_the_class_that_no_column_has_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,itm\n1,tea\n")

    with pytest.raises(ConfigError, match=r"no column 'item'; did you mean 'itm'\? \(a field of Order\)"):
        values(CsvSource(path, key="id").for_topic(ORDERS))


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two columns have the name 'a'"):
        values(CsvSource(write(tmp_path / "a.csv", "a,a\n1,2\n")))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"encoding": "utf-9"}, "Python knows none by the name of 'utf-9'"),
        ({"encoding": "utf-16"}, "lines of utf-16 can't be found"),
        ({"null": "NA"}, r"give a list of markers, \['NA'\]"),
        ({"delimiter": "::"}, "give one character, not '::'"),
        ({"disorder": -1}, "disorder must not be negative"),
        ({"on_error": "ignore"}, "on_error must be 'fail', 'skip' or DeadLetter"),
    ],
)
def test_wrong_settings_are_refused_where_they_are_given(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        CsvSource("a.csv", **settings)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst"])
def test_reading_goes_on_after_any_position(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "_ROWS", 50)
    rows = [f'{n},"{n:0200}\nof two lines",{n}.5' if n % 5 == 0 else f"{n},{n:0200},{n}" for n in range(400)]
    rows[200] = "bad"
    source = CsvSource(write(tmp_path / name, "id,item,price\n" + "\n".join(rows)), key="id").for_topic(ORDERS)
    check_source(source, limit=100)
    everything = list(rows_of(source))

    assert len({row.position[0] for row in everything}) > 4, "several blocks"
    for index in (0, 199, 200, 201, 398, 399):
        assert list(rows_of(source, position=everything[index].position)) == everything[index + 1 :]
