"""A job as bytes: what another process makes of them, which files go along, and what is said of a job that can't go."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from raystreams.cluster import code_files
from raystreams.cluster.code_bundle import bundle, open_bundle
from raystreams.cluster.connectors.base import ReadAs

import raystreams as rs
from raystreams import Collect, ConfigError, CsvSource, Job, JsonLinesSink, Record
from tests.cluster.jobs import Kept, Lists, numbers

TOPOLOGY = """
from __future__ import annotations
from dataclasses import dataclass
import logging
import threading
import raystreams as rs
import {helper}

LOG = logging.getLogger(__name__)
LOCK = threading.Lock()

@dataclass(frozen=True)
class Line:
    id: int
    item: str
    amount: int = 1

@dataclass(frozen=True)
class Bill:
    lines: list[Line]
    total: int

def add(key: str, line: Line, bill: Bill) -> Bill:
    with LOCK:
        return Bill([*bill.lines, line], bill.total + {helper}.price(line))

def build(factor: int = 1):
    builder = rs.StreamsBuilder()
    lines = builder.stream(rs.Topic("lines", key=str, value=Line))
    big = lines.filter(lambda key, line: isinstance(line, Line) and LOCK is not None and line.amount * factor > 0)
    bills = big.group_by_key().aggregate(lambda: Bill([], 0), add, materialized=rs.Materialized.key_value("bills", value=Bill))
    bills.to_stream().map_values(lambda bill: {{"total": bill.total, "last": bill.lines[-1].item}}).to(rs.Topic("bills", key=str))
    return builder.build()
"""

HELPER = """
PRICES = {"tea": 2, "rum": 9}

def price(line):
    from {helper}_later import TIMES
    return PRICES[line.item] * line.amount * TIMES
"""

JOB = """
[job]
name = "bills"
topology = "{topology}.py:build"
state_dir = "state"

[params]
factor = 2

[sources.lines]
connector = "csv"
path = "data/lines.csv"
key = "item"
timestamp = "at"

[sinks.bills]
connector = "jsonl"
path = "out"
key = "item"
"""

SCRIPT = """
from __future__ import annotations
import enum
import sys
from dataclasses import dataclass, field
from pathlib import Path
import msgspec
import raystreams as rs
from beside import price
from raystreams.cluster.code_bundle import bundle

class Kind(enum.Enum):
    HOT = "hot"

@dataclass(frozen=True)
class Line:
    item: str
    kind: Kind
    parts: list[Part] = field(default_factory=list)

class Part(msgspec.Struct, frozen=True, rename="camel"):
    part_name: str
    inside: Part | None = None

    def depth(self) -> int:
        return 1 if self.inside is None else 1 + self.inside.depth()

DEPTH = 10

def told(line):
    return {"price": price(line.item), "kind": line.kind.value, "depth": DEPTH + line.parts[0].depth()}

if __name__ == "__main__":
    builder = rs.StreamsBuilder()
    builder.stream(rs.Topic("lines", key=str, value=Line)).map_values(lambda line: told(line)).to("told")
    rows = [{"item": "tea", "kind": "hot", "at": 1, "parts": [{"partName": "a", "inside": {"partName": "b"}}]}]
    source = rs.Rows(rows, key="item", timestamp="at")
    job = rs.Job("main", builder.build(), sources={"lines": source}, sinks={"told": rs.Collect()})
    Path(sys.argv[1]).write_bytes(bundle(job))
"""

WORKER = """
import sys
from pathlib import Path
from raystreams.cluster.code_bundle import open_bundle
job = open_bundle(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]))
result = job.run()
for topic in sys.argv[3:]:
    print([(record.key, record.value) for record in result[topic]])
"""


def python(folder: Path, script: str, *arguments: str | Path) -> str:
    """Run a script in a process of its own, whose import path has nothing of ours but what is installed."""
    folder.mkdir(exist_ok=True)
    (folder / "run.py").write_text(script)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(folder / "run.py"), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def imports() -> Iterator[None]:
    """Forget what a test imports."""
    path, modules, finders = list(sys.path), set(sys.modules), list(sys.meta_path)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        if "bundled" in name:
            del sys.modules[name]


def write_job(folder: Path, topology: str = "bundled_topology", helper: str = "bundled_helper") -> Path:
    """Write a job whose code is in three modules; return the job file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{topology}.py").write_text(TOPOLOGY.format(helper=helper))
    (folder / f"{helper}.py").write_text(HELPER.replace("{helper}", helper))
    (folder / f"{helper}_later.py").write_text("TIMES = 10\n")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "lines.csv").write_text("id,item,amount,at\n1,tea,1,1\n2,rum,3,2\n3,tea,2,3\n")
    (folder / "job.toml").write_text(JOB.format(topology=topology))
    return folder / "job.toml"


def job_of(source: Any = None, sink: Any = None, mapper: Any = None) -> Job:
    """A job of one step."""
    builder = rs.StreamsBuilder()
    builder.stream(rs.Topic("in", key=str, value=int)).map_values(mapper or str).to("out")
    source = Lists(numbers(3)) if source is None else source
    return Job("job", builder.build(), sources={"in": source}, sinks={"out": Collect() if sink is None else sink})


def names_in(data: bytes) -> set[str]:
    """The files of a bundle's root."""
    code = msgspec.msgpack.decode(data)["code"]
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        return {name.removeprefix("0/") for name in archive.namelist() if name.startswith("0/")}


def changed(data: bytes, **fields: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(data) | fields)


def test_another_process_runs_a_job_file_without_its_folder(tmp_path: Path, imports: None) -> None:
    file = write_job(tmp_path / "job")
    data = bundle(Job.load(file), root=file.parent)
    (tmp_path / "bytes").write_bytes(data)
    for name in ("bundled_topology", "bundled_helper", "bundled_helper_later"):
        (file.parent / f"{name}.py").unlink()

    python(tmp_path / "worker", WORKER, tmp_path / "bytes", tmp_path / "code")

    rows = [msgspec.json.decode(line) for line in (tmp_path / "job" / "out" / "part-00000.jsonl").read_bytes().splitlines()]
    assert [(row["item"], row["total"]) for row in rows] == [("tea", 20), ("rum", 270), ("tea", 60)]
    assert (tmp_path / "job" / "state" / "00000").is_dir()


def test_another_process_runs_a_job_of_main(tmp_path: Path) -> None:
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "beside.py").write_text('def price(item):\n    return {"tea": 2}[item]\n')
    python(folder, SCRIPT, tmp_path / "bytes")

    told = python(tmp_path / "worker", WORKER, tmp_path / "bytes", tmp_path / "code", "told")

    assert told.strip() == str([("tea", {"price": 2, "kind": "hot", "depth": 12})])


def test_a_module_under_another_name_than_its_file_is_found_under_it(tmp_path: Path, imports: None) -> None:
    Job.load(write_job(tmp_path / "one", helper="bundled_one"))
    job = Job.load(write_job(tmp_path / "two", helper="bundled_two"))
    data = bundle(job, root=tmp_path / "two")
    name = job.topology.sources[0].operator.value.hint.__module__  # type: ignore[attr-defined]  # of any operator
    del sys.modules[name]

    opened = open_bundle(data, tmp_path / "code")

    hint = opened.topology.sources[0].operator.value.hint  # type: ignore[attr-defined]  # of any operator
    assert name.startswith("bundled_topology_")
    assert hint.__module__ == name
    assert hint is sys.modules[name].Line


def test_code_outside_of_the_root_goes_along(tmp_path: Path, imports: None) -> None:
    write_job(tmp_path / "common")
    inner = tmp_path / "common" / "jobs"
    inner.mkdir()
    (inner / "job.toml").write_text(JOB.format(topology="../bundled_topology").replace("data/", "../data/"))
    data = bundle(Job.load(inner / "job.toml"), root=inner)
    for name in ("bundled_topology", "bundled_helper"):
        del sys.modules[name]

    opened = open_bundle(data, tmp_path / "code")
    hint = opened.topology.sources[0].operator.value.hint  # type: ignore[attr-defined]  # of any operator

    assert sys.modules["bundled_topology"].Line is hint
    for name in ("bundled_topology", "bundled_helper"):
        assert (tmp_path / "code") in Path(sys.modules[name].__file__ or "").parents


def test_state_data_and_outputs_stay_here(tmp_path: Path, imports: None) -> None:
    file = write_job(tmp_path)
    for name in ("state/00000/x", "out/part-00000.jsonl", ".env", ".git/config", "env/pyvenv.cfg", "env/a.py", "old/CURRENT"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "model.bin").write_bytes(b"x" * (code_files.LARGEST_FILE + 1))
    (tmp_path / "words.txt").write_text("x")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text("")

    found = names_in(bundle(Job.load(file), root=tmp_path))

    modules = {"bundled_topology.py", "bundled_helper.py", "bundled_helper_later.py"}
    assert found == {*modules, "job.toml", "words.txt", "package/part.py"}


def test_a_glob_leaves_out_the_files_it_matches(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.txt"):
        (tmp_path / name).write_text("k,at\nx,1\n")
    job = job_of(CsvSource(tmp_path / "*.csv", key="k", timestamp="at", value="at"))

    assert names_in(bundle(job, root=tmp_path)) == {"c.txt"}


def test_the_same_code_is_unzipped_once(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "bundled_a.py").write_text("")
    data = [bundle(job_of(mapper=mapper), root=tmp_path / "root") for mapper in (str, abs)]

    for each in data:
        open_bundle(each, tmp_path / "code")

    assert len(list((tmp_path / "code").iterdir())) == 1


def test_relative_paths_mean_the_folder_of_the_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("k,at\nx,1\n")
    source = ReadAs(CsvSource("in.csv", key="k", timestamp="at", value="at"), disorder=5)
    job = job_of(source, JsonLinesSink("out"))
    job.state_dir = Path("state")

    opened = open_bundle(bundle(job, root=tmp_path), tmp_path / "code")
    read: Any = opened.bindings.sources["in"]
    written: Any = opened.bindings.sinks["out"][0]

    assert read.source.path == str(tmp_path / "in.csv")
    assert read.disorder == 5
    assert written.path == str(tmp_path / "out")
    assert opened.state_dir == tmp_path / "state"
    assert job.state_dir == Path("state")


class Poll(Lists):
    """A source whose `path` is no file's, and whose `folder` is one."""

    def __init__(self, path: str, folder: Path) -> None:
        super().__init__(numbers(1))
        self.path, self.folder = path, folder

    def located(self, folder: Path) -> Poll:
        return Poll(self.path, folder / self.folder)


def test_a_users_source_says_itself_what_is_relative(tmp_path: Path) -> None:
    opened = open_bundle(bundle(job_of(Poll("v1/orders", Path("in"))), root=tmp_path), tmp_path / "code")
    source: Any = opened.bindings.sources["in"]

    assert (source.path, source.folder) == ("v1/orders", Path.cwd() / "in")


def test_a_job_opened_here_runs(tmp_path: Path) -> None:
    factor = 3

    @dataclass(frozen=True)
    class Doubled:
        n: int

    data = bundle(job_of(mapper=lambda value: Doubled(value * factor).n), root=tmp_path)

    result = open_bundle(data, tmp_path / "code").run()

    assert list(result["out"]) == [Record(key, 3 * n, n) for n, key in enumerate("abc")]


def test_a_function_that_holds_a_lock_is_named(tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(value: int) -> int:
        with lock:
            return value

    with pytest.raises(ConfigError, match=r"'KSTREAM-MAPVALUES-\d+' can't be sent.*attribute 'mapper' is the function") as error:
        bundle(job_of(mapper=locked), root=tmp_path)

    line = locked.__code__.co_firstlineno
    assert f"locked' at {__file__}:{line}, whose variable 'lock' is a _thread.lock" in str(error.value)


def test_a_source_that_holds_a_lock_is_named(tmp_path: Path) -> None:
    source = Lists(numbers(1))
    source.client = {"db": [threading.Lock()]}  # type: ignore[attr-defined]  # as users do

    with pytest.raises(ConfigError, match=r"source of 'in'.*attribute 'client' is a dict, whose item 'db' is a list.*_thread"):
        bundle(job_of(source), root=tmp_path)


def test_a_sink_that_holds_a_generator_is_named(tmp_path: Path) -> None:
    sink = Kept()
    sink.before_write = (n for n in range(3))  # type: ignore[assignment]  # as users do

    with pytest.raises(ConfigError, match=r"the sink of 'out' can't be sent.*attribute 'before_write' is a generator"):
        bundle(job_of(sink=sink), root=tmp_path)


def test_too_much_code_is_told_with_its_largest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raystreams.cluster.code_bundle.LARGEST", 1 << 20)
    for number in range(3):
        (tmp_path / f"part{number}.txt").write_text("x" * (400_000 + number))

    with pytest.raises(ConfigError, match=r"more than the 1 MB.*part2\.txt \(0\.4 MB\).*part1\.txt.*Move data out"):
        bundle(job_of(), root=tmp_path)


def test_too_many_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("")

    with pytest.raises(ConfigError, match="more than 2 files"):
        bundle(job_of(), root=tmp_path)


def test_too_many_rows_are_told_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(Lists(numbers(20_000)))
    data = len(bundle(job, root=tmp_path))
    monkeypatch.setattr("raystreams.cluster.code_bundle.sizes", lambda files: {})
    monkeypatch.setattr("raystreams.cluster.code_bundle.LARGEST", 1 << 16)

    with pytest.raises(ConfigError, match=r"without its code.*the largest are the source of 'in'"):
        bundle(job, root=tmp_path)

    assert data > 1 << 16


def test_another_version_of_raystreams_or_python_is_told(tmp_path: Path) -> None:
    data = bundle(job_of(), root=tmp_path)

    with pytest.raises(ConfigError, match=r"submitted with raystreams 9\.9\.9, and this worker has raystreams \d.*Install"):
        open_bundle(changed(data, raystreams="9.9.9", job="not yet"), tmp_path / "code")
    with pytest.raises(ConfigError, match=r"submitted with Python 2\.7, and this worker has Python 3\.\d+.*start the cluster"):
        open_bundle(changed(data, python="2.7"), tmp_path / "code")
    with pytest.raises(ConfigError, match="no bundle"):
        open_bundle(b"nonsense", tmp_path / "code")


def test_other_code_of_the_same_name_is_told(tmp_path: Path, imports: None) -> None:
    file = write_job(tmp_path)
    data = bundle(Job.load(file), root=tmp_path)
    (tmp_path / "bundled_helper.py").write_text("PRICES = {}")

    with pytest.raises(ConfigError, match="has loaded another module 'bundled_helper'"):
        open_bundle(data, tmp_path / "code")


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        bundle(job_of(), root=tmp_path / "nowhere")
