"""Writing JSON lines and CSV: what is written, and that it is written once."""

from __future__ import annotations

import enum
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from raystreams.cluster.connectors.base import RecordColumns, Sink, SinkBatch
from raystreams.cluster.connectors.conformance import check_sink
from raystreams.cluster.connectors.csv_sink import CsvSink
from raystreams.cluster.connectors.jsonl import JsonLinesSink
from raystreams.cluster.errors import SinkError
from raystreams.operators.record import Record
from raystreams.stores.values import Windowed


@dataclass(frozen=True)
class Flight:
    carrier: str
    delay: int | None


class Struct(msgspec.Struct):
    carrier: str


class Tagged(msgspec.Struct, tag="tagged", rename="camel"):
    air_line: str


class Model(pydantic.BaseModel):
    carrier: str


class Pair(NamedTuple):
    a: int
    b: int


class Colour(enum.Enum):
    RED = "red"


def written(sink: Sink[Any, Any], *batches: list[Record[Any, Any]], position: Any = None) -> Any:
    """Write batches to partition 0; return the last position."""
    writer = sink.open(0, position)
    for number, records in enumerate(batches, 1):
        position = writer.write(SinkBatch(f"0-{number}", number, records))
    writer.close()
    return position


def lines(sink: JsonLinesSink) -> list[str]:
    return (Path(sink.path) / "part-00000.jsonl").read_text().splitlines()


def line_of(folder: Path, value: Any, key: Any = "k", **settings: Any) -> str:
    sink = JsonLinesSink(folder, **settings)
    written(sink, [Record(key, value, 17)])
    (line,) = lines(sink)
    return line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"carrier": "UA", "delay": None}, '{"carrier":"UA","delay":null}'),
        (Flight("UA", 3), '{"carrier":"UA","delay":3}'),
        (Struct("UA"), '{"carrier":"UA"}'),
        (Tagged("UA"), '{"type":"tagged","airLine":"UA"}'),
        (Model(carrier="UA"), '{"carrier":"UA"}'),
        (Pair(1, 2), '{"a":1,"b":2}'),
        (3, '{"value":3}'),
        (None, '{"value":null}'),
        ([1, 2], '{"value":[1,2]}'),
        ({1: "a"}, '{"value":{"1":"a"}}'),
        ({}, "{}"),
    ],
)
def test_a_value_is_written_as_its_fields_or_under_the_name_value(tmp_path: Path, value: Any, line: str) -> None:
    assert line_of(tmp_path, value) == line
    assert json.loads(line_of(tmp_path, value, key="k", timestamp="at")) == {"at": 17, **json.loads(line)}


def test_scalars_of_any_kind_have_a_form(tmp_path: Path) -> None:
    value = {
        "time": datetime(2013, 1, 1, 10, tzinfo=timezone.utc),
        "day": date(2013, 1, 31),
        "sum": Decimal("0.10"),
        "id": UUID(int=1),
        "bytes": b"\x00\xff",
        "set": {1},
        "colour": Colour.RED,
        "window": Windowed("a", 0, 5),
        "nested": [Flight("UA", 1)],
        "model": Model(carrier="UA"),
    }

    assert json.loads(line_of(tmp_path, value)) == {
        "time": "2013-01-01T10:00:00Z",
        "day": "2013-01-31",
        "sum": "0.10",
        "id": "00000000-0000-0000-0000-000000000001",
        "bytes": "AP8=",
        "set": [1],
        "colour": "red",
        "window": {"key": "a", "start": 0, "end": 5},
        "nested": [{"carrier": "UA", "delay": 1}],
        "model": {"carrier": "UA"},
    }


def test_what_has_no_form_in_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"part-00000.jsonl: a value of batch 0-1 can't be written as JSON: a object has no form"):
        line_of(tmp_path, {"x": object()})


@pytest.mark.parametrize(
    ("key", "setting", "line"),
    [
        ("UA", "carrier", '{"carrier":"UA","at":17,"n":1}'),
        (("UA", 7), "key", '{"key":["UA",7],"at":17,"n":1}'),
        (("UA", 7), ["carrier", "flight"], '{"carrier":"UA","flight":7,"at":17,"n":1}'),
        (Windowed("UA", 0, 60_000), "carrier", '{"carrier":"UA","start":0,"end":60000,"at":17,"n":1}'),
        (Windowed("UA", 0, 5), ["k", "from", "to"], '{"k":"UA","from":0,"to":5,"at":17,"n":1}'),
        (Flight("UA", 3), ["carrier", "delay"], '{"carrier":"UA","delay":3,"at":17,"n":1}'),
        (None, "key", '{"key":null,"at":17,"n":1}'),
    ],
)
def test_settings_add_columns_for_the_key_and_the_time(tmp_path: Path, key: Any, setting: Any, line: str) -> None:
    sink = JsonLinesSink(tmp_path, key=setting, timestamp="at")
    written(sink, [Record(key, {"n": 1}, 17)])

    assert lines(sink) == [line]


def test_a_key_that_does_not_fit_the_columns_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"the key 'UA' can't be written as the columns a, b; set key to one column's name"):
        written(JsonLinesSink(tmp_path, key=["a", "b"]), [Record("UA", 1, 0)])


def test_columns_of_records_are_written_like_records(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path, key="k")
    writer = sink.open(0, None)
    writer.write(SinkBatch("0-1", 1, RecordColumns(["a", "b"], [{"n": 1}, {"n": 2}], [1, 2])))
    writer.close()

    assert lines(sink) == ['{"k":"a","n":1}', '{"k":"b","n":2}']


def csv_text(sink: CsvSink) -> str:
    return (Path(sink.path) / "part-00000.csv").read_text()


def test_csv_has_a_header_and_a_row_for_each_record(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path, key="k", timestamp="at", null="NA")
    first = Record("a", {"text": 'say "hi",\nyou', "ok": True, "n": None}, 1)
    second = Record("b", {"text": datetime(2013, 1, 1, tzinfo=timezone.utc), "ok": 1.5, "n": [1, {"x": "y"}]}, 2)
    written(sink, [first], [second])

    assert csv_text(sink) == (
        'k,at,text,ok,n\na,1,"say ""hi"",\nyou",true,NA\nb,2,2013-01-01T00:00:00Z,1.5,"[1,{""x"":""y""}]"\n'
    )


def test_csv_has_its_header_once_after_a_restart(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    position = written(sink, [Record("a", {"x": 1, "y": 2}, 1)])
    written(sink, [Record("b", {"y": 4, "x": 3}, 2)], position=position)

    assert csv_text(sink) == "x,y\n1,2\n3,4\n"


def test_csv_refuses_a_field_that_no_column_has_and_leaves_one_empty(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path)
    position = written(sink, [Record("a", {"x": 1, "y": 2}, 1)], [Record("b", {"x": 3}, 2)])

    with pytest.raises(SinkError, match=r"a row has a field 'z', and the file's columns are x, y. Name all columns with"):
        written(sink, [Record("b", {"z": 3}, 2)], position=position)
    assert csv_text(sink) == "x,y\n1,2\n3,\n"


def test_csv_columns_may_be_named(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path, columns=["y", "x", "z"], delimiter=";")
    written(sink, [Record("a", {"x": 1, "y": 2}, 1)])

    assert csv_text(sink) == "y;x;z\n2;1;\n"


SINKS: list[Callable[..., Sink[Any, Any]]] = [JsonLinesSink, CsvSink]


@pytest.fixture(params=SINKS, ids=["jsonl", "csv"])
def make(request: pytest.FixtureRequest) -> Callable[..., Sink[Any, Any]]:
    made: Callable[..., Sink[Any, Any]] = request.param
    return made


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def records(*numbers: int) -> list[Record[Any, Any]]:
    return [Record(f"k{n}", {"n": n}, n) for n in numbers]


@pytest.mark.parametrize("partition", [0, 3])
def test_a_sink_keeps_its_promises(make: Callable[..., Sink[Any, Any]], tmp_path: Path, partition: int) -> None:
    def read_back() -> list[str]:
        path = next(tmp_path.glob(f"part-{partition:05}.*"), None)
        return [line for line in (path.read_text() if path else "").splitlines() if line != "n"]

    check_sink(make(tmp_path, fsync=True), read_back, partition=partition)


def test_each_partition_has_its_file_from_the_beginning(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    for partition in range(2):
        make(tmp_path / "deep" / "out").open(partition, None).close()

    assert [path.stem for path in sorted((tmp_path / "deep" / "out").iterdir())] == ["part-00000", "part-00001"]


def test_what_was_written_after_the_position_is_cut_off(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    committed = written(make(tmp_path), records(1, 2))
    expected = content(tmp_path)
    written(make(tmp_path), records(3, 4), position=committed)
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b"torn")
    make(tmp_path).open(0, committed).close()

    assert content(tmp_path) == expected


def test_a_job_that_begins_again_replaces_what_was_there(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    written(make(tmp_path), records(1, 2, 3))
    written(make(tmp_path), records(4))

    assert all(path.read_text().splitlines()[-1] in ('{"n":4}', "4") for path in tmp_path.iterdir())
    assert b"3" not in b"".join(content(tmp_path).values())


def test_a_process_thought_dead_writes_the_same_bytes_to_the_same_place(
    make: Callable[..., Sink[Any, Any]], tmp_path: Path
) -> None:
    zombie = make(tmp_path).open(0, None)
    committed = zombie.write(SinkBatch("0-1", 1, records(1)))
    written(make(tmp_path), records(2), records(3), position=committed)
    expected = content(tmp_path)
    zombie.write(SinkBatch("0-2", 2, records(2)))
    zombie.close()

    assert content(tmp_path) == expected


def test_a_file_that_lost_committed_bytes_is_an_error(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    committed = written(make(tmp_path), records(1, 2))
    (path,) = tmp_path.iterdir()
    os.truncate(path, 3)

    lost = f"{path} has 3 bytes, and {committed['length']} had been written and committed"
    with pytest.raises(SinkError, match=re.escape(lost)):
        make(tmp_path).open(0, committed)


def test_a_folder_that_can_not_be_written_is_an_error(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    with pytest.raises(SinkError, match=r"out/part-00000\.\w+ can't be written: "):
        make(tmp_path / "out").open(0, None)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_and_loses_nothing_committed(make: Callable[..., Sink[Any, Any]], tmp_path: Path) -> None:
    committed = written(make(tmp_path), records(1))
    before = content(tmp_path)
    (path,) = tmp_path.iterdir()
    writer = make(tmp_path).open(0, committed)
    full, file = os.open("/dev/full", os.O_WRONLY), writer._file._file  # type: ignore[attr-defined]  # a full disk
    keep = os.dup(file)
    os.dup2(full, file)

    with pytest.raises(SinkError, match=r"can't be written: No space left on device. What is committed is safe"):
        writer.write(SinkBatch("0-2", 2, records(2)))
    assert path.exists()
    assert content(tmp_path) == before
    os.dup2(keep, file)
    writer.write(SinkBatch("0-2", 2, records(2)))
    assert content(tmp_path)[path.name].startswith(before[path.name])
    writer.close()
    os.close(full)
    os.close(keep)
