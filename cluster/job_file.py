"""A job file, read into what a `Job` is made of. A job.toml is exactly the constructor calls that it stands for.

    [job]          name, topology = "file.py:build", and what `Job` takes
    [params]       arguments of build()
    [sources.X]    connector = "csv" or "file.py:Class"; the other keys are the constructor's arguments. Those of `COMMON`
                   belong to every source, whether its class takes them or not
    [sinks.X]      likewise; [[sinks.X]] for several

What may be written, and in which form, the annotations of these callables say (`config`). Every error names file, table and key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from raystreams.cluster import user_code
from raystreams.cluster.bindings import AnySink, AnySource, bind
from raystreams.cluster.cluster_settings import ClusterSettings
from raystreams.cluster.config import Parameter, Parameters, parameters_of, read_argument, read_setting
from raystreams.cluster.connectors.base import ReadAs
from raystreams.cluster.connectors.registry import Kind, check_made, connector
from raystreams.cluster.connectors.row_format import RowSettings
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean
from raystreams.cluster.toml_tables import Setting, Table, Tables, read_tables
from raystreams.operators.graph import Topology
from raystreams.operators.options import OnError
from raystreams.stores.errors import RaystreamsError

COMMON = ("disorder", "idle_after", "partitioned", "on_error")
"""What may be said of every source (`connectors.base.Reading`)."""


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The table [job]."""

    name: str
    topology: str
    partitions: int = 1
    state_dir: Path | None = None
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    on_error: OnError = "fail"
    standby_replicas: int = 0


@dataclass(frozen=True, kw_only=True)
class JobDescription:
    """All that a job file says, read and checked; `folder` is where it lies."""

    name: str
    topology: Topology
    sources: Mapping[str, AnySource]
    sinks: Mapping[str, tuple[AnySink, ...]]
    partitions: int
    state_dir: Path | None
    guarantee: Literal["exactly_once", "at_least_once"]
    on_error: OnError
    params: Mapping[str, Any]
    cluster: ClusterSettings
    runtime_env: Mapping[str, Any]
    file: Path

    @property
    def folder(self) -> Path:
        """Where the job file lies."""
        return self.file.parent


def load_job_file(
    path: str | Path, params: Mapping[str, Any] | None = None, *, arguments: Mapping[str, str] | None = None
) -> JobDescription:
    """Read a job file; raises ConfigError. `params` go over its [params] as they are, `arguments` as text to be read."""
    tables = read_tables(Path(path))
    job = _made(JobSettings, tables.single["job"])
    if job.partitions < 1:
        raise tables.single["job"].error(f"a job has at least one partition, not {job.partitions}", "partitions")
    cluster = _made(ClusterSettings, tables.single["cluster"])
    if job.standby_replicas:
        cluster = dataclasses.replace(cluster, standby_replicas=job.standby_replicas)
    topology, given = _topology(tables, params or {}, arguments or {})
    sources = {topic: _source(table[0], tables) for topic, table in tables.sources.items()}
    sinks = {topic: tuple(_sink(table, tables) for table in group) for topic, group in tables.sinks.items()}
    try:
        bind(topology, sources, sinks, job.on_error)
    except ConfigError as error:
        raise ConfigError(f"{tables.file}: {error}") from error
    return JobDescription(
        name=job.name,
        topology=topology,
        sources=sources,
        sinks=sinks,
        partitions=job.partitions,
        state_dir=job.state_dir,
        guarantee=job.guarantee,
        on_error=job.on_error,
        params=given,
        cluster=cluster,
        runtime_env={key: setting.value for key, setting in tables.single["runtime_env"].settings.items()},
        file=tables.file,
    )


def _topology(tables: Tables, params: Mapping[str, Any], arguments: Mapping[str, str]) -> tuple[Topology, dict[str, Any]]:
    """Load and call `build`; its own errors are told with the line that they come from."""
    job, table = tables.single["job"], tables.single["params"]
    setting = job.settings["topology"]
    try:
        build = user_code.load(setting.value, setting.file.parent)
    except ConfigError as error:
        raise job.error(str(error), "topology") from error
    if not callable(build):
        raise job.error(f"{setting.value} is a {type(build).__name__}, and no function that returns a Topology", "topology")
    takes = parameters_of(build)
    given = _read(table, takes, setting.value)
    for name in params:
        if unknown := _unknown(name, takes, setting.value):
            raise ConfigError(f"{name}: {unknown}")
    for name, text in arguments.items():
        if unknown := _unknown(name, takes, setting.value):
            raise ConfigError(f"-P {name}: {unknown}")
        hint = takes.named[name].hint if name in takes.named else Any
        try:
            given[name] = read_argument(text, hint, Path())
        except ValueError as error:
            raise ConfigError(f"-P {name}: {error}") from error
    given |= params
    missing = [name for name, parameter in takes.named.items() if parameter.required and name not in given]
    if missing:
        raise table.error(f"{setting.value} needs {', '.join(missing)}; write them here or give -P {missing[0]}=...")
    try:
        topology = build(**given)
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, RaystreamsError) else user_code.describe(error)
        raise job.error(f"{setting.value} failed: {user_code.place_of(error, _file_of(build))}: {text}", "topology") from error
    if not isinstance(topology, Topology):
        raise job.error(
            f"{setting.value} returned a {type(topology).__name__}, and no Topology: it should end in `return builder.build()`",
            "topology",
        )
    return topology, given


def _file_of(build: Callable[..., Any]) -> Path | None:
    code = getattr(build, "__code__", None)
    return None if code is None else Path(code.co_filename)


def _source(table: Table, tables: Tables) -> AnySource:
    ours = parameters_of(RowSettings).named
    made, rest = _connected(table, tables, "source", {name: ours[name] for name in COMMON})
    return ReadAs(made, **rest) if rest else made


def _sink(table: Table, tables: Tables) -> AnySink:
    made: AnySink = _connected(table, tables, "sink", {})[0]
    return made


def _connected(table: Table, tables: Tables, kind: Kind, common: Mapping[str, Parameter]) -> tuple[Any, dict[str, Any]]:
    """Make a table's source or sink. Return also those of the `common` settings that its class doesn't take itself."""
    if "connector" not in table.settings:
        raise table.error('connector is missing: write connector = "csv", "jsonl", "parquet" or "file.py:Class"')
    setting = table.settings["connector"]
    if not isinstance(setting.value, str):
        raise table.error(f"expects a text, got {setting.value!r}", "connector")
    try:
        make = connector(setting.value, kind, setting.file.parent)
    except ConfigError as error:
        raise table.error(str(error), "connector") from error
    takes = parameters_of(make)
    own = _without(_with_connection(table, tables, takes), "connector")
    missing = {name: parameter for name, parameter in common.items() if name not in takes.named}
    read = _read(own, Parameters({**missing, **takes.named}, takes.open), setting.value)
    rest = {name: read.pop(name) for name in missing if name in read}
    needed = [name for name, parameter in takes.named.items() if parameter.required and name not in read]
    if needed:
        raise table.error(f"{setting.value} needs {', '.join(needed)}")
    try:
        made = make(**read)
        check_made(made, setting.value, kind)
    except (ConfigError, ValueError, TypeError) as error:
        raise table.error(str(error)) from error
    except Exception as error:
        where = user_code.place_of(error, None)
        raise table.error(f"{setting.value} failed: {where}: {user_code.describe(error)}") from error
    return made, rest


def _with_connection(table: Table, tables: Tables, takes: Parameters) -> Table:
    """Put the settings of the named connection below a table's own."""
    if "connection" not in table.settings or "connection" in takes.named:
        return table
    name = table.settings["connection"].value
    if name not in tables.connections:
        raise table.error(f"there is no [connections.{name}]{did_you_mean(str(name), tables.connections)}", "connection")
    return _without(table, "connection").over(tables.connections[name])


def _without(table: Table, key: str) -> Table:
    return Table(table.name, table.file, {name: setting for name, setting in table.settings.items() if name != key})


def _read(table: Table, takes: Parameters, what: str) -> dict[str, Any]:
    """Read a table's settings as what a callable takes."""
    read = {}
    for key, setting in table.settings.items():
        if unknown := _unknown(key, takes, what):
            raise table.error(unknown, key)
        read[key] = _value(table, key, setting, takes)
    return read


def _value(table: Table, key: str, setting: Setting, takes: Parameters) -> Any:
    if key not in takes.named:
        return setting.value
    try:
        return read_setting(setting.value, takes.named[key].hint, setting.file.parent)
    except ValueError as error:
        raise table.error(str(error), key) from error


def _unknown(name: str, takes: Parameters, what: str) -> str | None:
    if name in takes.named or takes.open:
        return None
    return f"{what} takes no such setting{did_you_mean(name, takes.named)}"


def _made(settings: type[Any], table: Table) -> Any:
    """Make one of our own tables."""
    takes = parameters_of(settings)
    read = _read(table, takes, f"[{table.name}]")
    missing = [name for name, parameter in takes.named.items() if parameter.required and name not in read]
    if missing:
        raise table.error(f"{missing[0]} is missing", None)
    return settings(**read)
