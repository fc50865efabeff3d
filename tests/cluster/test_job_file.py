"""Job files: what they make, and how they say what is wrong."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import pytest
from raystreams.cluster.bindings import bind
from raystreams.cluster.config import Bytes, parameters_of, parse_bytes, parse_duration, read_argument, read_setting
from raystreams.cluster.connectors.base import ReadAs, reading_of
from raystreams.cluster.connectors.csv import CsvSource
from raystreams.cluster.connectors.jsonl import JsonLinesSink, JsonLinesSource
from raystreams.cluster.connectors.rows import Rows
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job_file import JobDescription, load_job_file
from raystreams.operators.builder import StreamsBuilder
from raystreams.operators.options import DeadLetter, OnError

from tests.cluster.job_files import JOB, replaced, write_job


def load(folder: Path, text: str = JOB, **params: Any) -> JobDescription:
    return load_job_file(write_job(folder, text), params)


def refused(folder: Path, text: str, **params: Any) -> str:
    """Return the error of a job file, without the folder in front of its name."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **params)
    return str(caught.value).replace(f"{folder}/", "")


def with_settings(table: str, *lines: str) -> str:
    return replaced((f"[{table}]", "\n".join((f"[{table}]", *lines))))


def test_a_job_file_is_the_constructor_calls_that_it_stands_for(tmp_path: Path) -> None:
    job = load(tmp_path)

    assert (job.name, job.partitions, job.state_dir, job.guarantee, job.on_error) == ("shop", 1, None, "exactly_once", "fail")
    assert list(job.sources) == ["orders", "items"]
    assert job.sources["orders"] == CsvSource(tmp_path / "data/orders.csv", key="id", timestamp="at")
    assert job.sources["items"] == JsonLinesSource(tmp_path / "data/items.jsonl", key="item")
    assert job.sinks == {"out": (JsonLinesSink(tmp_path / "out"),)}
    assert set(job.topology.stores) == {"items"}


def test_settings_are_read_as_what_the_annotations_say(tmp_path: Path) -> None:
    text = with_settings(
        "sources.items",
        'disorder = "90s"',
        "idle_after = 250",
        "partitioned = true",
        'on_error = "dead-letter:out"',
        'timestamp_unit = "s"',
    )
    source = load(tmp_path, text).sources["items"]

    assert isinstance(source, JsonLinesSource)
    assert (source.disorder, source.idle_after, source.timestamp_unit) == (timedelta(seconds=90), 250, "s")
    assert reading_of(source).on_error == DeadLetter("out")


def test_the_job_table_has_what_a_job_takes(tmp_path: Path) -> None:
    text = replaced(
        (
            'name = "shop"',
            'name = "shop"\npartitions = 4\nstate_dir = "state"\nguarantee = "at_least_once"\non_error = "skip"',
        )
    )
    job = load(tmp_path, text)

    assert (job.partitions, job.state_dir) == (4, tmp_path / "state")
    assert (job.guarantee, job.on_error) == ("at_least_once", "skip")


def test_params_are_the_arguments_of_build(tmp_path: Path) -> None:
    text = JOB + '[params]\nlimit = 85\ngap = "5m"\nsince = 2013-01-01T00:00:00Z\n'
    since = datetime(2013, 1, 1, tzinfo=timezone.utc)

    assert load(tmp_path, text).params == {"limit": 85.0, "gap": timedelta(minutes=5), "since": since}
    assert load(tmp_path, text, limit=1.0).params["limit"] == 1.0


def test_arguments_of_the_command_line_are_read_as_what_the_annotations_say(tmp_path: Path) -> None:
    arguments = {"limit": "90", "gap": "1.5h", "since": "2013-01-01T00:00:00Z", "name": "1.10"}
    job = load_job_file(write_job(tmp_path), arguments=arguments)

    assert job.params == {
        "limit": 90.0,
        "gap": timedelta(minutes=90),
        "since": datetime(2013, 1, 1, tzinfo=timezone.utc),
        "name": "1.10",
    }


def test_a_file_may_extend_another_whose_paths_stay_its_own(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "live").mkdir()
    write_job(tmp_path / "base")
    live = tmp_path / "live" / "job.toml"
    live.write_text(
        'extends = "../base/job.toml"\n[job]\nname = "live"\nstate_dir = "state"\n'
        '[sources.orders]\ndisorder = "1m"\n[sources.items]\nconnector = "csv"\npath = "items.csv"\n'
    )
    job = load_job_file(live)

    assert (job.name, job.state_dir) == ("live", tmp_path / "live/state")
    base = tmp_path / "live/../base"
    assert job.sources == {
        "orders": CsvSource(base / "data/orders.csv", key="id", timestamp="at", disorder=timedelta(minutes=1)),
        "items": CsvSource(tmp_path / "live/items.csv"),
    }


def test_tables_of_tables_are_several_sinks(tmp_path: Path) -> None:
    text = replaced(("[sinks.out]", '[[sinks.out]]\nconnector = "csv"\npath = "csv"\n[[sinks.out]]'))

    assert [type(sink).__name__ for sink in load(tmp_path, text).sinks["out"]] == ["CsvSink", "JsonLinesSink"]


def test_a_connection_is_shared_keys(tmp_path: Path) -> None:
    text = JOB + '[connections.files]\nkey = "item"\ntimestamp = "arrival"\n'
    text = text.replace('key = "item"', 'connection = "files"', 1)
    source = load(tmp_path, text).sources["items"]

    assert source == JsonLinesSource(tmp_path / "data/items.jsonl", key="item", timestamp="arrival")


def test_the_environment_is_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DATA", "data/orders")
    source = load(tmp_path, replaced(('"data/orders.csv"', '"${SHOP_DATA}.csv"'))).sources["orders"]

    assert source == CsvSource(tmp_path / "data/orders.csv", key="id", timestamp="at")
    assert load(tmp_path, replaced(('path = "out"', 'path = "$${SHOP}"'))).sinks["out"] == (JsonLinesSink(tmp_path / "${SHOP}"),)


def test_a_users_class_is_a_source_and_settings_of_all_sources_hold_for_it(tmp_path: Path) -> None:
    text = replaced(
        (
            'connector = "jsonl"\npath = "data/items.jsonl"\nkey = "item"',
            'connector = "shop.py:Poll"\nurl = "https://shop/items"\nevery = 2\nidle_after = "30s"\ndisorder = "1s"',
        )
    )
    source = load(tmp_path, text).sources["items"]

    assert isinstance(source, ReadAs)
    assert (source.source.url, source.source.every) == ("https://shop/items", 2.0)  # type: ignore[attr-defined]  # a user's
    assert (reading_of(source).idle_after, reading_of(source).disorder) == (30_000, 1000)
    assert source.splits() == ["all"]


def test_a_users_sink_may_take_any_setting(tmp_path: Path) -> None:
    text = replaced(('connector = "jsonl"\npath = "out"', 'connector = "shop.py:Pager"\nurl = "https://pager"\nroom = 5'))
    (sink,) = load(tmp_path, text).sinks["out"]

    assert (sink.url, sink.more) == ("https://pager", {"room": 5})  # type: ignore[attr-defined]  # a user's


def test_what_a_cluster_needs_is_read(tmp_path: Path) -> None:
    text = JOB + '[cluster]\nnum_cpus = 2\nmemory = "4GiB"\nresources = {fast = 1}\n[runtime_env]\npip = ["httpx"]\n'
    text = text.replace('name = "shop"', 'name = "shop"\nstandby_replicas = 1')
    job = load(tmp_path, text)

    assert (job.cluster.num_cpus, job.cluster.memory, job.cluster.resources) == (2.0, 4 << 30, {"fast": 1.0})
    assert job.cluster.standby_replicas == 1
    assert job.runtime_env == {"pip": ["httpx"]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            with_settings("job", "partitons = 4"),
            "job.toml: [job] partitons: [job] takes no such setting; did you mean 'partitions'?",
        ),
        (with_settings("job", 'partitions = "4"'), "job.toml: [job] partitions: expects a whole number, got '4'"),
        (with_settings("job", "partitions = 0"), "job.toml: [job] partitions: a job has at least one partition, not 0"),
        (
            with_settings("job", 'guarantee = "exactly-once"'),
            "job.toml: [job] guarantee: expects \"exactly_once\" or \"at_least_once\", got 'exactly-once'",
        ),
        (
            with_settings("job", 'on_error = "ignore"'),
            "job.toml: [job] on_error: expects \"fail\" or \"skip\" or \"dead-letter:TOPIC\", got 'ignore'",
        ),
        (replaced(('name = "shop"\n', "")), "job.toml: [job]: name is missing"),
        (
            with_settings("sources.orders", 'timestmap = "at"'),
            "job.toml: [sources.orders] timestmap: csv takes no such setting; did you mean 'timestamp'?",
        ),
        (
            with_settings("sources.orders", 'disorder = "5 minutes"'),
            "job.toml: [sources.orders] disorder: '5 minutes' is no duration; write a number and a unit, such as "
            '"250ms", "30s", "5m", "2h" or "7d"',
        ),
        (
            with_settings("sources.orders", 'null = "NA"'),
            "job.toml: [sources.orders] null: expects Sequence[str], got 'NA'",
        ),
        (
            with_settings("sources.orders", 'time_zone = "Europe/Berlni"'),
            "job.toml: [sources.orders]: time_zone: no time zone 'Europe/Berlni'; did you mean 'Europe/Berlin'?",
        ),
        (
            replaced(('connector = "csv"', 'connector = "cvs"')),
            "job.toml: [sources.orders] connector: there is no source connector 'cvs'; did you mean 'csv'? "
            'A class of yours is "file.py:Class"',
        ),
        (
            replaced(('connector = "csv"\n', "")),
            'job.toml: [sources.orders]: connector is missing: write connector = "csv", "jsonl", "parquet" or "file.py:Class"',
        ),
        (replaced(('path = "data/orders.csv"\n', "")), "job.toml: [sources.orders]: csv needs path"),
        (
            replaced(('connector = "csv"', 'connector = "shop.py:Pol"')),
            "job.toml: [sources.orders] connector: shop.py has no 'Pol'; did you mean 'Poll'?",
        ),
        (
            replaced(('connector = "csv"', 'connector = "shopp.py:Poll"')),
            "job.toml: [sources.orders] connector: there is no file shopp.py; did you mean 'shop.py'?",
        ),
        (
            replaced(('connector = "jsonl"\npath = "out"', 'connector = "shop.py:Neither"')),
            "job.toml: [sinks.out]: shop.py:Neither makes a Neither, which is no sink: it has no open()",
        ),
        (
            replaced(('connector = "jsonl"\npath = "out"', 'connector = "shop.py:Refuses"\nn = 7')),
            "job.toml: [sinks.out]: 7 is too many",
        ),
        (
            with_settings("sources.orders", 'connection = "shopp"') + "[connections.shop]\n",
            "job.toml: [sources.orders] connection: there is no [connections.shopp]; did you mean 'shop'?",
        ),
        (
            with_settings("sources.orders", 'connection = "shop"') + '[connections.shop]\nbrokers = "kafka:9092"\n',
            "job.toml: [sources.orders] brokers: csv takes no such setting; there are: columns, deleted, delimiter, "
            "disorder, encoding, idle_after, key, null, on_error, partitioned, path, quote, time_zone, timestamp, "
            "timestamp_format, timestamp_unit, value",
        ),
        (JOB + "[surces.x]\n", "job.toml: there is no table [surces]; did you mean 'sources'?"),
        (JOB + "[job]\n", "job.toml is no TOML: Cannot declare ('job',) twice (at line 20, column 5)"),
        ("sources = 3\n" + JOB[: JOB.index("[sources")], "job.toml: sources is a table; write [sources]"),
        ("[job\n", "job.toml is no TOML: Expected ']' at the end of a table declaration (at line 1, column 5)"),
        (
            replaced(('path = "out"', 'path = "${SHOP_OUT_7}"')),
            "job.toml: [sinks.out] path: the environment has no SHOP_OUT_7; set it",
        ),
        (
            JOB + "[params]\nlimt = 3\n",
            "job.toml: [params] limt: shop.py:build takes no such setting; did you mean 'limit'?",
        ),
        (JOB + '[params]\nlimit = "3"\n', "job.toml: [params] limit: expects a number, got '3'"),
        (
            JOB + '[params]\nsince = "2013-01-01T00:00:00"\n',
            "job.toml: [params] since: the time 2013-01-01T00:00:00 has no zone; write it with one, such as 2013-01-01T00:00:00Z",
        ),
        ('extends = "bse.toml"\n', "job.toml: extends: there is no file 'bse.toml'"),
        ('extends = "job.toml"\n', "job.toml: extends: 'job.toml' extends this file, so it would never end"),
    ],
)
def test_what_is_wrong_is_named_with_file_table_and_key(tmp_path: Path, text: str, error: str) -> None:
    assert refused(tmp_path, text) == error


def test_a_job_file_that_is_not_there_is_named_with_the_right_name(tmp_path: Path) -> None:
    write_job(tmp_path)

    with pytest.raises(ConfigError, match=r"there is no job file '.*/jop.toml'; did you mean 'job.toml'\?"):
        load_job_file(tmp_path / "jop.toml")


@pytest.mark.parametrize(
    ("topology", "error"),
    [
        ("shop.py:biuld", "shop.py has no 'biuld'; did you mean 'build'?"),
        ("shop.py", "'shop.py' names no code; write \"file.py:name\" or \"module:name\""),
        ("shopp.py:build", "there is no file shopp.py; did you mean 'shop.py'?"),
        ("no_such_module_7:build", "there is no module 'no_such_module_7', neither installed nor in FOLDER"),
        ("shop.py:SEEN", "shop.py:SEEN is a list, and no function that returns a Topology"),
        (
            "shop.py:gives_nothing",
            "shop.py:gives_nothing returned a NoneType, and no Topology: it should end in `return builder.build()`",
        ),
        ("shop.py:fails", "shop.py:fails failed: shop.py:29: ZeroDivisionError: division by zero"),
    ],
)
def test_a_topology_that_is_none_is_named_with_the_line_of_the_users_error(tmp_path: Path, topology: str, error: str) -> None:
    text = replaced(("shop.py:build", topology))

    assert refused(tmp_path, text).replace(str(tmp_path), "FOLDER") == f"job.toml: [job] topology: {error}"


def test_arguments_that_build_needs_are_listed(tmp_path: Path) -> None:
    assert refused(tmp_path, replaced(("shop.py:build", "shop.py:needs"))) == (
        "job.toml: [params]: shop.py:needs needs limit, gap; write them here or give -P limit=..."
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import raystreams\n\nraise KeyError('x')\n", "broken.py:3: KeyError: 'x'"),
        ("def build(:\n", "broken.py:1: SyntaxError: invalid syntax"),
        ("import no_such_module_7\n", "broken.py:1: ModuleNotFoundError: No module named 'no_such_module_7'"),
        (
            "import raystreams as rs\ndef build():\n    return rs.StreamsBuilder().stream(7)\n",
            "broken.py:build failed: broken.py:3: TypeError: 'int' object is not iterable",
        ),
        (
            "import raystreams as rs\ndef build():\n    rs.Topic('a b')\n",
            "broken.py:build failed: broken.py:3: 'a b' can't name a topic: use 1 to 249 letters, digits, '.', '_' and '-'",
        ),
    ],
)
def test_a_topology_file_that_raises_is_named_with_its_line(tmp_path: Path, code: str, error: str) -> None:
    (tmp_path / "broken.py").write_text(code)

    assert refused(tmp_path, replaced(("shop.py:build", "broken.py:build"))) == f"job.toml: [job] topology: {error}"


def test_arguments_of_the_command_line_are_checked(tmp_path: Path) -> None:
    path = write_job(tmp_path)

    with pytest.raises(ConfigError, match=r"-P limt: shop.py:build takes no such setting; did you mean 'limit'\?"):
        load_job_file(path, arguments={"limt": "3"})
    with pytest.raises(ConfigError, match="-P limit: expects a number, got 'many'"):
        load_job_file(path, arguments={"limit": "many"})


def test_unbound_topics_are_listed_all_at_once(tmp_path: Path) -> None:
    text = JOB[: JOB.index("[sources")]

    assert refused(tmp_path, text) == (
        "job.toml: topics are bound to nothing: there is no source for 'orders', 'items', and no sink for 'out'. "
        "Add [sources.X], [sinks.X]"
    ).replace("'orders', 'items'", "'items', 'orders'")


def test_a_binding_of_a_topic_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert refused(tmp_path, JOB.replace("[sources.items]", "[sources.itmes]")) == (
        "job.toml: the source of 'itmes': the topology reads no topic of that name; did you mean 'items'?"
    )
    assert refused(tmp_path, JOB.replace("[sinks.out]", "[sinks.oot]")) == (
        "job.toml: the sink of 'oot': the topology writes no topic of that name; did you mean 'out'?"
    )


def test_a_dead_letter_topic_must_be_bound_and_may_be(tmp_path: Path) -> None:
    text = with_settings("sources.orders", 'on_error = "dead-letter:bad"')

    assert "there is no sink for 'bad'" in refused(tmp_path, text)
    assert set(load(tmp_path, text + '[sinks.bad]\nconnector = "jsonl"\npath = "bad"\n').sinks) == {"out", "bad"}


def test_a_stream_needs_times_and_a_table_does_not(tmp_path: Path) -> None:
    text = replaced(('timestamp = "at"\n', ""))

    assert refused(tmp_path, text) == (
        "job.toml: the source of 'orders': a stream needs times. Set timestamp to a column, or to \"arrival\" for the wall clock"
    )
    assert load(tmp_path, text.replace('key = "id"', 'key = "id"\ntimestamp = "arrival"')).name == "shop"


def test_a_topic_that_is_written_and_read_inside_needs_no_binding() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("between")
    builder.stream("between").to("out")

    bindings = bind(builder.build(), {"in": Rows([], timestamp="at")}, {"out": JsonLinesSink("out")})
    assert (set(bindings.sources), set(bindings.sinks)) == ({"in"}, {"out"})


@dataclass(frozen=True)
class _Inner:
    n: int


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("5m", int | timedelta, timedelta(minutes=5)),
        (5, int | timedelta, 5),
        (5, timedelta, timedelta(milliseconds=5)),
        ("5m", str, "5m"),
        ("5m", str | timedelta, timedelta(minutes=5)),
        ("five", str | timedelta, "five"),
        ("a/b", str | PathLike[str], Path("/f/a/b")),
        ("/a", Path, Path("/a")),
        ("s3://a/b", str | PathLike[str], "s3://a/b"),
        ("a/b", str, "a/b"),
        ("1KiB", Bytes | None, 1024),
        ("skip", OnError | None, "skip"),
        (3, float, 3.0),
        (["a"], list[str] | None, ["a"]),
        ({"n": 1}, _Inner, _Inner(1)),
        ("b", Literal["a", "b"], "b"),
        ("anything", Any, "anything"),
    ],
)
def test_a_setting_is_read_as_its_annotation_says(value: Any, hint: Any, expected: Any) -> None:
    assert read_setting(value, hint, Path("/f")) == expected


@pytest.mark.parametrize(
    ("value", "hint", "text"),
    [
        (True, int, "expects a whole number, got True"),
        ("5", float, "expects a number, got '5'"),
        (5, str, "expects a text, got 5"),
        (5, str | PathLike[str], "expects a path, got 5"),
        ("soon", datetime, "'soon' is no time; write ISO 8601 with a zone"),
        ("big", Bytes, "'big' is no size"),
        (1.5, int | timedelta, 'expects a whole number or a duration such as "5m", got 1.5'),
    ],
)
def test_a_setting_of_another_kind_says_what_is_expected(value: Any, hint: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_setting(value, hint, Path())


def test_an_annotation_that_is_not_there_at_run_time_hides_no_other() -> None:
    class Source:
        def __init__(self, client: "NoSuchClass", every: timedelta) -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    named = parameters_of(Source).named

    assert (named["every"].hint, named["client"].hint) == (timedelta, inspect.Parameter.empty)


def test_an_argument_is_toml_or_else_text() -> None:
    assert read_argument("[1, 2]", list[int], Path()) == [1, 2]
    assert read_argument("true", bool, Path()) is True
    assert read_argument("007", str, Path()) == "007"
    assert read_argument("3", Any, Path()) == 3
    assert read_argument("plain words", Any, Path()) == "plain words"


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250ms", 250), ("30s", 30_000), ("1.5h", 5_400_000), ("7d", 604_800_000), ("2 w", 1_209_600_000)]
)
def test_durations_have_units(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(("text", "size"), [("10", 10), ("1kB", 1000), ("1.5KiB", 1536), ("4GiB", 1 << 32), ("2 MB", 2_000_000)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_bytes(text) == size
