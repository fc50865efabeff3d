"""Job files as tables of settings, each knowing the file and the table that it stands in.

    extends = "base.toml"    this file's settings go over the base's, key by key. A source or sink that names its `connector` is
                             another one: it replaces the base's table as a whole, as [[sinks.x]] does
    ${NAME}                  in any text: an environment variable, which must be there; $${ is a plain ${

Paths are relative to the file that they are written in, also when another one extends it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SINGLE = ("job", "params", "cluster", "runtime_env")
GROUPS = ("connections", "sources", "sinks")
_VARIABLE = re.compile(r"\$?\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as it is written, and the file that it is written in."""

    value: Any
    file: Path


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a job file by its name, such as `sources.flights`."""

    name: str
    file: Path
    settings: Mapping[str, Setting]

    def error(self, text: str, key: str | None = None) -> ConfigError:
        """Return an error that names file, table and key."""
        file = self.settings[key].file if key is not None and key in self.settings else self.file
        place = f"[{self.name}] {key}" if key is not None else f"[{self.name}]"
        return ConfigError(f"{file}: {place}: {text}")

    def over(self, base: Table) -> Table:
        """Return this table's settings over another's."""
        return Table(self.name, self.file, {**base.settings, **self.settings})


@dataclass(frozen=True, slots=True)
class Tables:
    """A job file with all that it extends."""

    file: Path
    single: Mapping[str, Table]
    connections: Mapping[str, Table] = field(default_factory=dict)
    sources: Mapping[str, tuple[Table, ...]] = field(default_factory=dict)
    sinks: Mapping[str, tuple[Table, ...]] = field(default_factory=dict)


def read_tables(path: Path) -> Tables:
    """Read a job file and those that it extends."""
    tables = _read(path, ())
    return Tables(
        tables.file,
        {name: _with_environment(table) for name, table in tables.single.items()},
        {name: _with_environment(table) for name, table in tables.connections.items()},
        {name: tuple(map(_with_environment, group)) for name, group in tables.sources.items()},
        {name: tuple(map(_with_environment, group)) for name, group in tables.sinks.items()},
    )


def toml_value(text: str) -> Any:
    """Return a value that is written as in TOML; a ValueError for anything else.

    >>> toml_value("[1, 2]")
    [1, 2]
    """
    if "\n" in text:
        raise ValueError("a value has one line here")
    return tomllib.loads(f"value = {text}")["value"]


def _read(path: Path, extended_by: tuple[Path, ...]) -> Tables:
    content = _parse(path)
    base_name = content.pop("extends", None)
    tables = _tables(path, content)
    if base_name is None:
        return tables
    if not isinstance(base_name, str):
        raise ConfigError(f"{path}: extends: expects a path, got {base_name!r}")
    base_path = path.parent / base_name
    if base_path.resolve() in [one.resolve() for one in (*extended_by, path)]:
        raise ConfigError(f"{path}: extends: {base_name!r} extends this file, so it would never end")
    if not base_path.is_file():
        raise ConfigError(f"{path}: extends: there is no file {str(base_path)!r}")
    return _merged(_read(base_path, (*extended_by, path)), tables)


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content: dict[str, Any] = tomllib.load(file)
            return content
    except FileNotFoundError as error:
        near = did_you_mean(path.name, (p.name for p in path.parent.glob("*.toml"))) if path.parent.is_dir() else ""
        raise ConfigError(f"there is no job file {str(path)!r}{near if 'did you' in near else ''}") from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error


def _tables(path: Path, content: Mapping[str, Any]) -> Tables:
    for name in content:
        if name not in (*SINGLE, *GROUPS):
            raise ConfigError(f"{path}: there is no table [{name}]{did_you_mean(name, ('extends', *SINGLE, *GROUPS))}")
        if not isinstance(content[name], dict):
            raise ConfigError(f"{path}: {name} is a table; write [{name}]")
    groups: dict[str, dict[str, tuple[Table, ...]]] = {group: {} for group in GROUPS}
    for group in GROUPS:
        for name, found in content.get(group, {}).items():
            tables = found if isinstance(found, list) and group == "sinks" else [found]
            for table in tables:
                if not isinstance(table, dict):
                    raise ConfigError(f"{path}: [{group}] {name} is a table; write [{group}.{name}]")
            groups[group][name] = tuple(_table(path, f"{group}.{name}", table) for table in tables)
    return Tables(
        path,
        {name: _table(path, name, content.get(name, {})) for name in SINGLE},
        {name: tables[0] for name, tables in groups["connections"].items()},
        groups["sources"],
        groups["sinks"],
    )


def _table(path: Path, name: str, content: Mapping[str, Any]) -> Table:
    return Table(name, path, {key: Setting(value, path) for key, value in content.items()})


def _with_environment(table: Table) -> Table:
    settings = {
        key: Setting(_substituted(setting.value, f"{setting.file}: [{table.name}] {key}"), setting.file)
        for key, setting in table.settings.items()
    }
    return Table(table.name, table.file, settings)


def _substituted(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, where), value)
    if isinstance(value, list):
        return [_substituted(one, where) for one in value]
    if isinstance(value, dict):
        return {key: _substituted(one, where) for key, one in value.items()}
    return value


def _variable(found: re.Match[str], where: str) -> str:
    if found[0].startswith("$$"):
        return found[0][1:]
    name = found[1]
    if name not in os.environ:
        near = did_you_mean(name, os.environ)
        raise ConfigError(f"{where}: the environment has no {name}{near if 'did you' in near else '; set it'}")
    return os.environ[name]


def _merged(base: Tables, over: Tables) -> Tables:
    return Tables(
        over.file,
        {name: table.over(base.single[name]) for name, table in over.single.items()},
        {**base.connections, **dict(_merged_connections(base, over))},
        _merged_bindings(base.sources, over.sources),
        _merged_bindings(base.sinks, over.sinks),
    )


def _merged_connections(base: Tables, over: Tables) -> Iterator[tuple[str, Table]]:
    for name, table in over.connections.items():
        yield name, table.over(base.connections[name]) if name in base.connections else table


def _merged_bindings(
    base: Mapping[str, tuple[Table, ...]], over: Mapping[str, tuple[Table, ...]]
) -> dict[str, tuple[Table, ...]]:
    merged = dict(base)
    for name, tables in over.items():
        is_change = len(tables) == 1 and len(base.get(name, ())) == 1 and "connector" not in tables[0].settings
        merged[name] = (tables[0].over(base[name][0]),) if is_change else tables
    return merged
