"""Settings as they are written in TOML and on the command line, read as what a constructor's annotations say.

    timedelta            "250ms" "30s" "5m" "2h" "7d", or a number of milliseconds where the annotation has int too
    datetime             ISO 8601 with a zone, or TOML's own
    a path               relative to the file that it is written in; URLs are left as they are
    on_error             "fail", "skip", "dead-letter:TOPIC"
    Bytes                4096, "512MiB", "4GiB"
    anything else        as msgspec converts it, strictly: "5" is no number

There is no check for each setting: a connector's annotations are its checks, and a user's own class has the same ones.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NewType

import msgspec
from raystreams.cluster.toml_tables import toml_value
from raystreams.operators.options import DeadLetter
from raystreams.stores.hints import bare

Bytes = NewType("Bytes", int)
"""A size of memory or files."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\Z")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\Z", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_UNIONS = (typing.Union, types.UnionType)
_DEAD_LETTER = "dead-letter:"


def parse_duration(text: str) -> timedelta:
    """Return a duration that is written as a number and a unit: ms, s, m, h, d, w.

    >>> parse_duration("1.5h")
    datetime.timedelta(seconds=5400)
    """
    found = _DURATION.match(text.strip())
    if not found:
        raise ValueError(f'{text!r} is no duration; write a number and a unit, such as "250ms", "30s", "5m", "2h" or "7d"')
    return timedelta(microseconds=round(float(found[1]) * _SECONDS[found[2]] * 1_000_000))


def parse_time(text: str) -> datetime:
    """Return a time in ISO 8601, which must have a zone."""
    try:
        time = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f'{text!r} is no time; write ISO 8601 with a zone, such as "2024-06-30T12:00:00Z"') from None
    return _with_zone(time)


def parse_bytes(text: str) -> int:
    """Return a size that is written as a number and a unit: 4GiB is 2**32, 4GB is 4 * 10**9."""
    found = _SIZE.match(text.strip())
    if not found:
        raise ValueError(f'{text!r} is no size; write a number and a unit, such as "512MiB" or "4GiB"')
    base = 1024 if found[3] else 1000
    return math.ceil(float(found[1]) * float(base ** _POWER[found[2].upper()]))


def _with_zone(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError(f"the time {time.isoformat()} has no zone; write it with one, such as {time.isoformat()}Z")
    return time


def read_setting(value: Any, hint: Any, folder: Path) -> Any:
    """Return a value from TOML as what an annotation asks for; a ValueError says what it expects."""
    members = _members(hint)
    if members is None:
        return value
    for special in (_path, _duration, _time, _size, _on_error):
        found = special(value, members, folder)
        if found is not None:
            return found
    others = [member for member in members if not _is_path(member) and member not in (timedelta, DeadLetter, type(None))]
    for member in others:
        try:
            return msgspec.convert(value, member, strict=True)
        except (msgspec.ValidationError, TypeError):
            continue
    raise ValueError(f"expects {_describe(members)}, got {value!r}")


def read_argument(text: str, hint: Any, folder: Path) -> Any:
    """Return a value from the command line: as TOML if it is such, else as text."""
    try:
        value = toml_value(text)
    except ValueError:
        return read_setting(text, hint, folder)
    try:
        return read_setting(value, hint, folder)
    except ValueError:
        return read_setting(text, hint, folder)


def _members(hint: Any) -> list[Any] | None:
    """The alternatives of an annotation; None if it says nothing."""
    hint = _alias(hint)
    if hint is inspect.Parameter.empty or hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return None
    if typing.get_origin(hint) not in _UNIONS:
        return [hint]
    members: list[Any] = []
    for member in typing.get_args(hint):
        inner = _members(member)
        if inner is None:
            return None
        members += inner
    return members


def _alias(hint: Any) -> Any:
    return hint if hint is Bytes or typing.get_origin(hint) in _UNIONS else bare(hint)


def _is_path(member: Any) -> bool:
    cls = typing.get_origin(member) or member
    return isinstance(cls, type) and issubclass(cls, os.PathLike)


def _path(value: Any, members: list[Any], folder: Path) -> Any:
    if not isinstance(value, str) or not any(map(_is_path, members)):
        return None
    return value if "://" in value else folder / Path(value).expanduser()


def _duration(value: Any, members: list[Any], folder: Path) -> Any:
    if timedelta not in members:
        return None
    if isinstance(value, str) and (str not in members or _DURATION.match(value.strip())):
        return parse_duration(value)
    if isinstance(value, int) and not isinstance(value, bool) and int not in members:
        return timedelta(milliseconds=value)
    return None


def _time(value: Any, members: list[Any], folder: Path) -> Any:
    if datetime not in members:
        return None
    if isinstance(value, datetime):
        return _with_zone(value)
    return parse_time(value) if isinstance(value, str) and str not in members else None


def _size(value: Any, members: list[Any], folder: Path) -> Any:
    if Bytes not in members:
        return None
    return parse_bytes(value) if isinstance(value, str) else value if isinstance(value, int) else None


def _on_error(value: Any, members: list[Any], folder: Path) -> Any:
    if DeadLetter in members and isinstance(value, str) and value.startswith(_DEAD_LETTER):
        return DeadLetter(value.removeprefix(_DEAD_LETTER))
    return None


_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    timedelta: 'a duration such as "5m"',
    datetime: "a time in ISO 8601 with a zone",
    DeadLetter: '"dead-letter:TOPIC"',
    Bytes: 'a size such as "512MiB"',
}


def _describe(members: list[Any]) -> str:
    words = []
    for member in members:
        if typing.get_origin(member) is typing.Literal:
            words += [f'"{argument}"' for argument in typing.get_args(member)]
        elif _is_path(member):
            words.append("a path")
        elif member is not type(None):
            name = getattr(member, "__name__", str(member)) if typing.get_origin(member) is None else str(member)
            words.append(_WORDS.get(member, name.replace("collections.abc.", "")))
    if "a path" in words and "a text" in words:
        words.remove("a text")
    return " or ".join(dict.fromkeys(words))


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that a callable takes."""

    hint: Any
    required: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What a callable takes by name. `open`: it takes any name (`**kwargs`)."""

    named: Mapping[str, Parameter]
    open: bool


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return what may be given to a class or function by name, with its annotations as far as they can be resolved."""
    # The fields of a dataclass may be inherited from another file, whose names only get_type_hints of the class knows.
    target = function
    if inspect.isclass(function) and not dataclasses.is_dataclass(function):
        target = function.__init__
    hints = _hints_of(target)
    named = {}
    takes_any = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            hint = hints.get(name, parameter.empty)
            named[name] = Parameter(hint, parameter.default is parameter.empty)
    return Parameters(named, takes_any)


def _hints_of(target: Any) -> Mapping[str, Any]:
    """The annotations of a class or function; those that name what isn't there at run time say nothing."""
    try:
        return typing.get_type_hints(target)
    except Exception:
        pass
    found: dict[str, Any] = {}
    for owner in reversed(target.__mro__) if inspect.isclass(target) else [target]:
        for name in getattr(owner, "__annotations__", {}):
            alone = types.SimpleNamespace(__annotations__={name: owner.__annotations__[name]})
            try:
                found |= typing.get_type_hints(alone, vars(sys.modules[owner.__module__]))
            except Exception:
                continue
    return found
