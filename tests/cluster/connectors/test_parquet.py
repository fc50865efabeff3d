"""Parquet files and data frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from raystreams.cluster.connectors.base import SinkBatch
from raystreams.cluster.connectors.conformance import check_sink, check_source
from raystreams.cluster.connectors.frame import FrameSource
from raystreams.cluster.connectors.parquet import ParquetSource
from raystreams.cluster.connectors.parquet_sink import ParquetSink
from raystreams.cluster.errors import ConfigError, SinkError, SourceError
from raystreams.operators.options import Topic
from raystreams.operators.record import Record

from tests.cluster.connectors.reading import Order, rows_of, triples, values

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

AT = datetime(2013, 1, 1, 10, tzinfo=timezone.utc)
MILLISECONDS = 1_357_034_400_000
ROWS: list[dict[str, Any]] = [{"id": 1, "item": "tea", "price": 2.5, "at": AT}, {"id": 2, "item": "rum", "price": None, "at": AT}]
ORDERS = Topic("orders", key=int, value=Order)


def parquet(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


def test_rows_are_records_of_the_topics_type(tmp_path: Path) -> None:
    source = ParquetSource(parquet(tmp_path / "a.parquet", ROWS), key="id", timestamp="at")

    assert triples(source) == [(1, ROWS[0], MILLISECONDS), (2, ROWS[1], MILLISECONDS)]
    assert values(source.for_topic(ORDERS)) == [Order(1, "tea", 2.5, AT), Order(2, "rum", None, AT)]


def test_times_without_a_zone_need_one_and_nanoseconds_are_cut(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([MILLISECONDS * 1_000_000 + 999_999], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a.parquet")

    (row,) = rows_of(ParquetSource(tmp_path / "a.parquet", timestamp="at"))
    assert "has no time zone; set time_zone" in row.reason  # type: ignore[union-attr]  # a bad row
    assert triples(ParquetSource(tmp_path / "a.parquet", timestamp="at", time_zone="UTC"))[0][2] == MILLISECONDS


def test_files_of_a_folder_are_splits(tmp_path: Path) -> None:
    for name in ("b.parquet", "day=1/a.pq"):
        parquet(tmp_path / name, ROWS)

    assert ParquetSource(tmp_path).splits() == ["b.parquet", "day=1/a.pq"]


@pytest.mark.parametrize("row_group_size", [7, 700, 10_000])
def test_reading_goes_on_after_any_position(tmp_path: Path, row_group_size: int) -> None:
    rows = [{"id": n, "item": "x" if n != 1500 else None} for n in range(3000)]
    path = parquet(tmp_path / "a.parquet", rows, row_group_size=row_group_size)
    source = ParquetSource(path, key="id").for_topic(ORDERS)
    check_source(source, limit=12)
    everything = list(rows_of(source))

    assert len(everything) == 3000
    for index in (0, 699, 700, 1499, 1500, 2999):
        assert list(rows_of(source, position=everything[index].position)) == everything[index + 1 :]


def test_a_file_that_was_rewritten_is_an_error(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ROWS)
    source = ParquetSource(path, key="id")
    position = next(iter(rows_of(source))).position
    parquet(path, [{**row, "id": row["id"] + 5} for row in ROWS])

    with pytest.raises(SourceError, match=re.escape(f"{path} has been changed since it was read")):
        list(rows_of(source, position=position))


def test_what_is_no_parquet_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing of the kind")
    path = parquet(tmp_path / "b.parquet", [{"text": f"{n * 7919:09}"} for n in range(9000)])
    data = bytearray(path.read_bytes())
    data[100:4000] = bytes(3900)
    path.write_bytes(data)

    with pytest.raises(SourceError, match=re.escape(f"{tmp_path / 'a.parquet'} can't be read as Parquet")):
        list(rows_of(ParquetSource(tmp_path / "a.parquet")))
    with pytest.raises(SourceError, match=re.escape(f"{path} can't be read to its end, it is damaged")):
        list(rows_of(ParquetSource(path)))


def test_a_column_that_is_not_there_is_an_error_with_the_right_name(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ROWS)

    with pytest.raises(ConfigError, match=r"key: no column 'itme'; did you mean 'item'\?"):
        values(ParquetSource(path, key="itme"))


@dataclass(frozen=True)
class Row:
    name: str
    n: int | None
    at: datetime
    day: date
    sizes: list[float]
    total: Decimal


def write(sink: ParquetSink, *batches: list[Record[Any, Any]], position: Any = None, first: int = 1) -> Any:
    writer = sink.open(0, position)
    for number, records in enumerate(batches, first):
        position = writer.write(SinkBatch(f"0-{number}", number, records))
    writer.close()
    return position


def test_columns_have_the_types_of_the_topics_class(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, key="key", timestamp="ts").for_topic(Topic("rows", key=str, value=Row))
    row = Row("a", None, AT, date(2013, 1, 1), [], Decimal("1.50"))
    write(sink, [Record("k", row, MILLISECONDS)])
    table = pq.read_table(tmp_path / "part-00000-0000000001.parquet")

    assert table.to_pylist() == [
        {"key": "k", "ts": AT, "name": "a", "n": None, "at": AT, "day": date(2013, 1, 1), "sizes": [], "total": Decimal("1.50")}
    ]
    assert [str(kind) for kind in table.schema.types] == [
        "string", "timestamp[ms, tz=UTC]", "string", "int64", "timestamp[us, tz=UTC]", "date32[day]",
        "list<element: double>", "decimal128(3, 2)",
    ]  # fmt: skip


def test_the_sink_keeps_its_promises(tmp_path: Path) -> None:
    def read_back() -> list[Any]:
        return [row for path in sorted(tmp_path.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]

    check_sink(ParquetSink(tmp_path, fsync=True), read_back)


def test_opening_removes_what_is_not_committed_and_leaves_other_partitions_alone(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    other = sink.open(1, None)
    other.write(SinkBatch("1-1", 1, [Record("a", 1, 0)]))
    committed = write(sink, [Record("a", 1, 0)])
    write(sink, [Record("b", 2, 0)], position=committed, first=2)
    (tmp_path / "part-00000-0000000003.parquet.tmp").write_bytes(b"torn")
    sink.open(0, committed)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "part-00000-0000000001.parquet",
        "part-00001-0000000001.parquet",
    ]


def test_what_has_no_form_in_parquet_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"0000000001.parquet: a value of batch 0-1 can't be written as Parquet: "):
        write(ParquetSink(tmp_path), [Record("a", {"x": 2**70}, 0)])


class Stream:
    """Anything that exports Arrow data, as pandas and polars frames do."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = pa.Table.from_pylist(self.rows).__arrow_c_stream__(requested_schema)
        return stream


def test_a_frame_is_read_whatever_made_it() -> None:
    table = pa.Table.from_pylist(ROWS)
    for frame in (table, Stream(ROWS), table.to_reader()):
        source = FrameSource(frame, key="id", timestamp="at").for_topic(ORDERS)

        assert triples(source) == [(1, Order(1, "tea", 2.5, AT), MILLISECONDS), (2, Order(2, "rum", None, AT), MILLISECONDS)]


def test_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    source = FrameSource(pandas.DataFrame(ROWS), key="id", timestamp="at").for_topic(ORDERS)

    assert [key for key, _, _ in triples(source)] == [1, 2]


def test_a_frame_keeps_the_promises_of_a_source() -> None:
    check_source(FrameSource(pa.Table.from_pylist([{"id": n} for n in range(1100)]), key="id"), limit=1200)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TypeError, match="frame: a list gives no Arrow data"):
        FrameSource([1])
