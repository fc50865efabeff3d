"""The command line: what it prints, and that every bad input is one clear message and a code."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from raystreams.cluster.cli import main
from raystreams.cluster.state_dir import copy_path, open_partition

from tests.cluster.job_files import JOB, replaced, write_job

STATEFUL = replaced(('name = "shop"', 'name = "shop"\npartitions = 2\nstate_dir = "state"'))

STORES = """
import raystreams as rs

DAY = 86_400_000

def build():
    builder = rs.StreamsBuilder()
    history = rs.Materialized.versioned("history", history_retention=365 * DAY)
    builder.table(rs.Topic("prices", key=str), materialized=history)
    pairs = builder.stream(rs.Topic("pairs", key=tuple[str, int]))
    pairs.group_by_key().count(materialized=rs.Materialized.key_value("counts"))
    pairs.group_by_key().windowed_by(rs.TimeWindows(10)).count(materialized=rs.Materialized.window("windows", retention=1000))
    return builder.build()
"""

BROKEN = """
class Broken:
    def splits(self):
        return ["all"]
    def read(self, split, position):
        yield [1 / 0]

class Full:
    def open(self, partition, position):
        return self

    def write(self, batch):
        raise KeyError("room")

    def close(self):
        pass
"""

STORES_JOB = """
[job]
name = "stores"
topology = "stores.py:build"
partitions = 3
state_dir = "state"
[sources.prices]
connector = "jsonl"
path = "prices.jsonl"
key = "item"
timestamp = "at"
[sources.pairs]
connector = "jsonl"
path = "pairs.jsonl"
key = ["shop", "id"]
timestamp = "at"
"""


class Cli:
    """The command in a folder. `error` is what an exit code of 1 printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str) -> Result:
        result = CliRunner().invoke(main, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def out(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def error(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("error: ") or "\nerror: " in result.stderr, result.stderr
        assert "Traceback" not in result.output
        return re.sub(r"(?s)^.*?error: ", "", result.stderr, count=1).strip().replace(f"{self.folder}/", "")

    def files(self) -> list[str]:
        return sorted(line for path in (self.folder / "out").iterdir() for line in path.read_text().splitlines())


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


# ---- run


def test_a_run_writes_its_outputs_and_a_summary(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)
    summary = re.sub(r"in \d+\.\d s", "in 0.0 s", cli.out("run", "job.toml"))

    assert summary == "shop finished in 0.0 s\n  read         2 orders\n               2 items\n  written      2 out\n"
    assert cli.files() == ['{"id":1,"item":"tea"}', '{"id":2,"item":"rum"}']


def test_a_run_may_print_json_alone(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)
    result = cli("run", "job.toml", "--json")
    summary = json.loads(result.stdout)

    assert summary.pop("seconds") >= 0
    assert summary == {
        "job": "shop",
        "already_finished": False,
        "sources": {"orders": 2, "items": 2},
        "sinks": {"out": 2},
        "dropped": [],
        "dead_letters": [],
    }
    assert result.stderr == ""


def test_without_a_terminal_progress_is_plain_lines(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)

    assert sorted(cli("run", "job.toml").stderr.splitlines()) == [
        "items  2 records  done  1970-01-01 00:00:00Z  100 %",
        "orders  2 records  done  1970-01-01 00:00:02Z  100 %",
    ]


def test_a_finished_job_says_so_and_does_nothing(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    before = cli.files()

    assert cli.out("run", "job.toml").startswith("shop has finished already: all its sources were read to their ends")
    assert cli.files() == before


def test_parameters_are_given_by_name(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)

    assert cli("run", "job.toml", "-P", "limit=3", "-P", "gap=5m").exit_code == 0
    assert "-P limt: shop.py:build takes no such setting; did you mean 'limit'?" in cli.error("run", "job.toml", "-P", "limt=3")
    assert cli("run", "job.toml", "-P", "limit").exit_code == 2


# ---- bad rows


def with_bad_rows(folder: Path, on_error: str) -> None:
    text = replaced(('key = "id"', f'key = "id"\non_error = "{on_error}"'))
    write_job(folder, text + '[sinks.bad]\nconnector = "jsonl"\npath = "bad"\n' * on_error.startswith("dead"))
    (folder / "data/orders.csv").write_text("id,item,at\n1,tea,1970-01-01T00:00:01Z\nx,rum,1970-01-01T00:00:02Z\n3,gin,soon\n4\n")


def test_a_malformed_row_stops_a_job_with_file_and_line(cli: Cli, tmp_path: Path) -> None:
    with_bad_rows(tmp_path, "fail")

    assert cli.error("run", "job.toml") == (
        "data/orders.csv:3: the key in 'id': Expected `int | null`, got `str`. The row is 'x,rum,1970-01-01T00:00:02Z'. Mend it, "
        'or let such rows pass by: on_error = "skip" of the source \'orders\' counts them, "dead-letter:TOPIC" keeps them'
    )


def test_malformed_rows_are_skipped_and_counted(cli: Cli, tmp_path: Path) -> None:
    with_bad_rows(tmp_path, "skip")

    assert re.search(r"dropped      3 .*: bad row\n", cli.out("run", "job.toml"))
    assert cli.files() == ['{"id":1,"item":"tea"}']


def test_malformed_rows_are_kept_in_a_dead_letter_file(cli: Cli, tmp_path: Path) -> None:
    with_bad_rows(tmp_path, "dead-letter:bad")
    cli.out("run", "job.toml")

    assert (tmp_path / "bad/part-00000.jsonl").read_text() == (
        '{"value":"x,rum,1970-01-01T00:00:02Z"}\n{"value":"3,gin,soon"}\n{"value":"4"}\n'
    )


# ---- other bad input


def test_a_missing_file_is_named_with_its_source(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, replaced(("data/orders.csv", "data/order.csv")))

    assert cli.error("run", "job.toml") == (
        "the source of 'orders': path: there is no file or folder 'data/order.csv'; did you mean 'orders.csv'?"
    )


def test_an_unknown_column_is_named_with_the_right_one(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, replaced(('key = "id"', 'key = "idd"')))

    assert cli.error("run", "job.toml") == "data/orders.csv: key: no column 'idd'; did you mean 'id'?"


def test_an_unknown_connector_is_named_with_the_right_one(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, replaced(('connector = "csv"', 'connector = "cvs"')))

    assert "there is no source connector 'cvs'; did you mean 'csv'?" in cli.error("run", "job.toml")


def test_a_topology_that_raises_is_named_with_its_line(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, replaced(("shop.py:build", "shop.py:fails")))

    assert cli.error("run", "job.toml") == (
        "job.toml: [job] topology: shop.py:fails failed: shop.py:29: ZeroDivisionError: division by zero"
    )


def test_state_of_another_job_is_refused(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    write_job(tmp_path, STATEFUL.replace('name = "shop"', 'name = "stop"'))

    assert cli.error("run", "job.toml") == "the state in state/00000 was written with job 'shop', and is now opened with 'stop'"


def test_state_of_another_number_of_partitions_is_refused(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    write_job(tmp_path, STATEFUL.replace("partitions = 2", "partitions = 3"))

    assert cli.error("run", "job.toml") == "the state in state/00000 was written with partitions 2, and is now opened with 3"
    assert cli.error("query", "job.toml", "items", "tea") == (
        "the state in state/00000 was written with partitions 2, and is now opened with 3"
    )


def test_state_of_a_store_that_is_gone_or_of_another_type_is_refused(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    code = (tmp_path / "shop.py").read_text()
    (tmp_path / "shop2.py").write_text(code.replace('key_value("items")', 'key_value("itms")'))
    (tmp_path / "shop3.py").write_text(code.replace('Topic("items", key=str)', 'Topic("items", key=int)'))

    (tmp_path / "job.toml").write_text(STATEFUL.replace("shop.py", "shop2.py"))
    assert cli.error("run", "job.toml").startswith("the state in state/00000 was written with the stores ['items']")
    (tmp_path / "job.toml").write_text(STATEFUL.replace("shop.py", "shop3.py"))
    assert cli.error("run", "job.toml") == (
        "store 'items' in state/00000 was written with key 'str', and is now opened with 'int'"
    )


def test_a_second_process_on_the_same_state_is_refused(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    with open_partition(tmp_path / "state", "shop", 0, 2):
        text = "the state in state/00000 is in use by another process. Stop the job that runs on it"

        assert cli.error("run", "job.toml").startswith(text)
        assert cli.error("query", "job.toml", "items", "tea").startswith(text)
        assert cli.error("reset", "job.toml", "-y").startswith(text)


def damage(state: Path) -> None:
    for path in sorted(state.iterdir()):
        if path.suffix in (".ldb", ".log") and path.stat().st_size > 20:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 0xFF
            path.write_bytes(data)


def test_damaged_state_is_named_and_not_repaired(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    damage(copy_path(tmp_path / "state", 1, 0))

    for command in (("run", "job.toml"), ("check", "job.toml", "--deep"), ("query", "job.toml", "items", "--all")):
        assert cli.error(*command).startswith("the state in state/00001 is damaged: ")


def test_a_function_that_raises_is_named_with_operator_key_position_and_line(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    code = (tmp_path / "shop.py").read_text()
    old = '{"id": order.id, "item": order.item}'
    assert old in code
    (tmp_path / "shop_div.py").write_text(code.replace(old, "1 / (2 - order.id)"))
    (tmp_path / "job.toml").write_text(STATEFUL.replace("shop.py", "shop_div.py"))
    error = cli.error("run", "job.toml")

    assert error.startswith("'KSTREAM-MAPVALUES-0000000003' failed on key 2 at time 2000 (topic 'orders', partition 0, position ")
    assert "ZeroDivisionError: division by zero" in error
    assert re.search(r"at shop_div.py:\d+$", error)


def test_a_key_of_another_type_than_declared_is_an_error(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path, STATEFUL)
    code = (tmp_path / "shop.py").read_text()
    old = "builder.stream(ORDERS)"
    assert old in code
    (tmp_path / "shop_key.py").write_text(code.replace(old, f"{old}.select_key(lambda k, v: 7, key=str).repartition()"))
    (tmp_path / "job.toml").write_text(STATEFUL.replace("shop.py", "shop_key.py"))

    assert "the key 7 is a int, and str is declared" in cli.error("run", "job.toml")


def test_an_output_that_can_not_be_written_is_an_error(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "out").write_text("a file")

    assert cli.error("run", "job.toml").startswith("out/part-00000.jsonl can't be written: ")


def test_a_wrong_command_line_is_code_2(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)

    assert cli("run").exit_code == 2
    assert cli("query", "job.toml", "items").exit_code == 2
    assert cli("query", "job.toml", "items", "tea", "--all").exit_code == 2
    assert cli("query", "job.toml", "items", "--all", "--history").exit_code == 2
    assert cli("query", "job.toml", "items", "tea", "--as-of", "soon").exit_code == 2
    assert cli("nothing").exit_code == 2


# ---- describe


def test_describe_prints_the_topology(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path)
    data = json.loads(cli.out("describe", "job.toml", "--json"))

    assert cli.out("describe", "job.toml").startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000")
    assert "flowchart" in cli.out("describe", "job.toml", "--mermaid")
    assert data["stores"] == {"items": {"kind": "timestamped_key_value", "key": "str", "value": "plain", "global": False}}
    assert len(data["nodes"]) == 5


# ---- query


@pytest.fixture
def stores(cli: Cli, tmp_path: Path) -> Cli:
    """A job whose state has a versioned store, one of tuple keys and a window store."""
    (tmp_path / "stores.py").write_text(STORES)
    (tmp_path / "job.toml").write_text(STORES_JOB)
    prices = [("tea", 2, 1000), ("tea", 3, 3000), ("rum", 9, 2000)]
    pairs = [("eu", 1, 5), ("eu", 2, 6), ("us", 1, 7), ("eu", 1, 15)]
    (tmp_path / "prices.jsonl").write_text("".join(json.dumps({"item": i, "price": p, "at": t}) + "\n" for i, p, t in prices))
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps({"shop": s, "id": i, "at": t}) + "\n" for s, i, t in pairs))
    cli.out("run", "job.toml")
    return cli


def rows(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli.out("query", "job.toml", *arguments, "--json").splitlines()]


def test_a_row_is_read_by_its_key(stores: Cli) -> None:
    assert rows(stores, "counts", '["eu", 1]') == [{"key": ["eu", 1], "value": 2}]
    assert stores.out("query", "job.toml", "counts", '["us", 1]') == '["us", 1]  1\n'


def test_ranges_and_all_are_in_the_order_of_keys_over_all_partitions(stores: Cli) -> None:
    everything = [["eu", 1], ["eu", 2], ["us", 1]]

    assert [row["key"] for row in rows(stores, "counts", "--all")] == everything
    assert [row["key"] for row in rows(stores, "counts", "--all", "--reverse")] == everything[::-1]
    assert [row["key"] for row in rows(stores, "counts", "--range", '["eu", 2]', '["us", 9]')] == everything[1:]
    assert [row["key"] for row in rows(stores, "counts", "--all", "--limit", "1")] == everything[:1]


def test_a_versioned_row_is_read_as_it_was(stores: Cli) -> None:
    def price(*arguments: str) -> list[tuple[int, int, int | None]]:
        return [(row["value"]["price"], row["timestamp"], row["valid_to"]) for row in rows(stores, "history", *arguments)]

    assert price("tea") == [(3, 3000, None)]
    assert price("tea", "--as-of", "2999") == [(2, 1000, 3000)]
    assert price("tea", "--as-of", "1970-01-01T00:00:03Z") == [(3, 3000, None)]
    assert sorted(price("tea", "--history")) == [(2, 1000, 3000), (3, 3000, None)]
    assert price("tea", "--history", "--reverse") == price("tea", "--history")[::-1]


def test_windows_of_a_key_are_read_with_their_starts(stores: Cli) -> None:
    assert rows(stores, "windows", '["eu", 1]') == [
        {"key": ["eu", 1], "start": 0, "value": 1},
        {"key": ["eu", 1], "start": 10, "value": 1},
    ]
    assert [(row["key"], row["start"]) for row in rows(stores, "windows", "--all", "--reverse")] == [
        (["us", 1], 0),
        (["eu", 2], 0),
        (["eu", 1], 10),
        (["eu", 1], 0),
    ]


def test_what_is_not_there_is_said(stores: Cli) -> None:
    assert stores.error("query", "job.toml", "counts", '["eu", 9]') == 'counts has no row of the key ["eu", 9]'
    assert stores.error("query", "job.toml", "history", "tea", "--as-of", "1") == "history has no row of the key tea at 1"


def test_a_question_that_a_store_can_not_answer_is_an_error(stores: Cli) -> None:
    assert stores.error("query", "job.toml", "cuonts", "x") == "the topology has no store 'cuonts'; did you mean 'counts'?"
    assert stores.error("query", "job.toml", "counts", '["eu", 1]', "--history") == (
        "the store 'counts' keeps no history: --as-of and --history are for versioned stores"
    )
    assert stores.error("query", "job.toml", "history", "--all").startswith("the store 'history' is versioned")
    assert stores.error("query", "job.toml", "counts", "eu").startswith(
        "'eu' is no key of the store 'counts', whose keys are tuple[str, int]: "
    )


def test_a_job_that_has_not_run_has_no_state_to_ask(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    assert cli.error("query", "job.toml", "items", "tea") == "the job 'shop' has no state in state: it has not run yet"

    write_job(tmp_path, JOB)
    assert cli.error("query", "job.toml", "items", "tea") == (
        "the job 'shop' keeps its state in memory; give it a state_dir to ask it afterwards"
    )


def test_a_key_of_another_type_is_told_with_its_record(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, replaced(('name = "shop"', 'name = "shop"\npartitions = 2')))
    shop = tmp_path / "shop.py"
    key = "builder.stream(ORDERS).select_key(lambda id, order: id, key=str).group_by_key().count().to_stream()"
    shop.write_text(shop.read_text().replace("builder.stream(ORDERS)", key).replace("order.id", "1").replace("order.item", "2"))

    text = cli.error("run", "job.toml")
    assert "the key 1 is a int, and str is declared (at the record of 'orders', partition 0, position [" in text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            '[sources.orders]\nconnector = "csv"\npath = "data/orders.csv"\nkey = "id"\ntimestamp = "at"',
            '[sources.orders]\nconnector = "mine.py:Broken"',
            r"the source of 'orders' failed in the split 'all': \S*mine.py:6: ZeroDivisionError: division by zero",
        ),
        (
            '[sinks.out]\nconnector = "jsonl"\npath = "out"',
            '[sinks.out]\nconnector = "mine.py:Full"',
            r"the sink of 'out' failed in partition 0 on the batch \S+: \S*mine.py:13: KeyError: 'room'. What is committed",
        ),
    ],
)
def test_a_source_or_sink_of_the_users_that_raises_is_named_with_its_line(
    old: str, new: str, text: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    write_job(tmp_path, replaced((old, new)))
    assert re.match(text, cli.error("run", "job.toml"))


# ---- reset, check


def test_reset_asks_and_forgets_the_state(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    assert cli.out("reset", "job.toml") == "shop has no state\n"
    cli.out("run", "job.toml")
    (tmp_path / "state" / "notes").write_text("not ours")

    assert CliRunner().invoke(main, ["reset", "job.toml"], input="n\n").exit_code == 1
    assert copy_path(tmp_path / "state", 0, 0).exists()
    assert cli.out("reset", "job.toml", "--yes") == "forgot the state of shop: 2 partitions\n"
    assert os.listdir(tmp_path / "state") == ["notes"]
    assert "shop finished" in cli.out("run", "job.toml")


def test_reset_also_forgets_what_no_run_takes(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    damage(tmp_path / "state" / "00000")
    assert cli.out("reset", "job.toml", "-y") == "forgot the state of shop: 2 partitions\n"

    cli.out("run", "job.toml")
    write_job(tmp_path, STATEFUL.replace('name = "shop"', 'name = "other"'))
    assert "was written with job 'shop'" in cli.error("reset", "job.toml", "-y")
    write_job(tmp_path, STATEFUL.replace("partitions = 2", "partitions = 1"))
    assert cli.out("reset", "job.toml", "-y") == "forgot the state of shop: 2 partitions\n"
    assert not (tmp_path / "state" / "00001").exists()


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "def build():\n    raise SystemExit(3)"])
def test_a_topology_that_exits_is_told(code: str, cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "shop.py").write_text(code)
    assert re.search(r"\[job\] topology: .*shop.py:[12]: SystemExit: 3", cli.error("run", "job.toml"))


def test_one_row_as_it_was_or_all_of_its_versions(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    done = CliRunner().invoke(main, ["query", "job.toml", "items", "tea", "--as-of", "1", "--history"])
    assert done.exit_code == 2
    assert "give --as-of or --history" in done.output


def test_a_lost_folder_is_named_and_not_made_by_a_query(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    cli.out("run", "job.toml")
    shutil.rmtree(tmp_path / "state" / "00001")

    assert cli.error("query", "job.toml", "items", "tea").startswith("the state in state lacks 00001: ")
    assert not (tmp_path / "state" / "00001").exists()


def test_check_says_what_becomes_of_each_store(cli: Cli, tmp_path: Path) -> None:
    write_job(tmp_path, STATEFUL)
    assert cli.out("check", "job.toml") == "shop: it has no state yet: everything is new\n  new      items\n"
    cli.out("run", "job.toml")
    assert cli.out("check", "job.toml") == "shop: state in state\n  kept     items\n"
    assert re.search(r"  \d+ rows read, all whole\n", cli.out("check", "job.toml", "--deep"))

    code = (tmp_path / "shop.py").read_text()
    changes = {
        "renamed": ('key_value("items")', 'key_value("goods", formerly="items")'),
        "gone": ('key_value("items")', 'key_value("goods")'),
        "refused": ('Topic("items", key=str)', 'Topic("items", key=int)'),
    }
    verdicts = {}
    for verdict, change in changes.items():
        (tmp_path / f"shop_{verdict}.py").write_text(code.replace(*change))
        (tmp_path / "job.toml").write_text(STATEFUL.replace("shop.py", f"shop_{verdict}.py"))
        result = cli("check", "job.toml", "--json")
        found = json.loads(result.stdout)
        verdicts[verdict] = [(store["store"], store["verdict"]) for store in found["stores"]]
        assert (result.exit_code, found["refused"]) == ((0, False) if verdict == "renamed" else (1, True))

    assert verdicts == {
        "renamed": [("goods", "renamed")],
        "gone": [("goods", "new"), ("items", "gone")],
        "refused": [("items", "refused")],
    }


# ---- the process

ENDLESS = """
from raystreams.cluster.connectors.base import SourceRecord, Wait
from shop import Order

class Ticks:
    def __init__(self):
        pass
    def splits(self):
        return ["ticks"]
    def read(self, split, position):
        n = position or 0
        while True:
            n += 1
            yield [SourceRecord(n, Order(n, "x"), n, n)]
            yield Wait(0.01)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_commits_and_says_so(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A second of a process: signals can't be had for less."""
    source = 'connector = "csv"\npath = "data/orders.csv"\nkey = "id"\ntimestamp = "at"'
    write_job(tmp_path, STATEFUL.replace(source, 'connector = "ticks.py:Ticks"').replace("partitions = 2\n", ""))
    (tmp_path / "ticks.py").write_text(ENDLESS)
    command = [str(Path(sys.executable).with_name("raystreams")), "run", "job.toml"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out = tmp_path / "out" / "part-00000.jsonl"
    deadline = time.monotonic() + 20
    while not (out.exists() and out.stat().st_size) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=20)

    assert (process.returncode, stderr.splitlines()[-1]) == (code, "stopped; what was done is committed")
    lines = out.read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(1, len(lines) + 1))


def test_the_command_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    write_job(tmp_path)
    program = """
import sys
from raystreams.cluster.cli import main
main(["describe", "job.toml"], standalone_mode=False)
print(sorted({"ray", "pyarrow", "rich", "pandas", "zmq", "asyncio"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
