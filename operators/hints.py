"""From what a user says about types to serdes (api: Types).

An operator that makes keys or values takes `key=` / `value=`. Without it: the callable itself if it is a class, else its
return annotation, else plain data. A TypeVar, `Any` or an annotation that can't be resolved is plain data too.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from raystreams.operators.options import Hint
from raystreams.stores.serdes import KeySerde, ValueSerde, key_serde, value_serde

F = TypeVar("F", bound=Callable[..., Any])


def check_function(function: F, what: str, *, optional: bool = False) -> F:
    """Return `function`; raises TypeError for what can't be called, and for `async def` (only map_async awaits)."""
    if function is None and optional:
        return function
    if not callable(function):
        raise TypeError(f"{what} must be callable, got {function!r}")
    if inspect.iscoroutinefunction(function):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{what} {name} is `async def`; give a plain function, or use map_async, which awaits")
    return function


def returned(function: Callable[..., Any]) -> Hint:
    """What a callable says that it returns, None where it says nothing of use. `X | None` counts as X."""
    if isinstance(function, type) or typing.get_origin(function) is not None:
        return _useful(function)
    target = function if inspect.isroutine(function) or inspect.isfunction(function) else type(function).__call__
    try:
        return _useful(typing.get_type_hints(target).get("return"))
    except Exception:
        return None


def value_of(function: Callable[..., Any], explicit: Hint, fallback: Hint = None) -> ValueSerde[Any]:
    """The serde of what `function` returns, unless `explicit` says otherwise; `fallback` where neither says anything."""
    hint = explicit if explicit is not None else returned(function)
    return value_serde(hint if hint is not None else fallback)


def key_of(function: Callable[..., Any], explicit: Hint) -> KeySerde:
    """As `value_of`, for keys."""
    return key_serde(explicit if explicit is not None else returned(function))


def pair_of(function: Callable[..., Any], key: Hint, value: Hint) -> tuple[KeySerde, ValueSerde[Any]]:
    """The serdes of the (key, value) pair that `function` returns."""
    hint = returned(function)
    origin: Any = typing.get_origin(hint)
    parts = typing.get_args(hint) if origin is tuple and len(typing.get_args(hint)) == 2 else (None, None)
    return (
        key_serde(key if key is not None else _useful(parts[0])),
        value_serde(value if value is not None else _useful(parts[1])),
    )


class DeclaredOrPlain:
    """Values of a declared type, or plain data: what a function may return that was given the one and says nothing.

    One byte in front tells them apart, so an object never comes back as a dict.
    """

    def __init__(self, declared: ValueSerde[Any]) -> None:
        self._declared, self._plain = declared, value_serde(None)
        self.description = f"{declared.description} or plain data"

    def encode(self, value: Any) -> bytes:
        """The bytes of a value; a SerdeError if it is neither."""
        try:
            return b"\x01" + self._declared.encode(value)
        except TypeError:  # another type than declared
            return b"\x00" + self._plain.encode(value)

    def decode(self, data: bytes) -> Any:
        """The value of bytes."""
        return (self._declared if data[0] else self._plain).decode(data[1:])


def element_of(function: Callable[..., Any]) -> Hint:
    """The element type of the iterable that `function` returns, None where unknown."""
    arguments = typing.get_args(returned(function))
    return _useful(arguments[0]) if len(arguments) == 1 else None


def _useful(hint: Any) -> Hint:
    if hint is None or hint is Any or hint is object or hint is type(None) or isinstance(hint, (TypeVar, str)):
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        return _useful(parts[0]) if len(parts) == 1 else None
    if any(isinstance(part, TypeVar) for part in typing.get_args(hint)):
        return None
    return hint
