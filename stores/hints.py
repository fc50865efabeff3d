"""Types as users write them (`key=int`, `value=list[Order]`, a return annotation), looked at for serdes.

`schema` turns a type into plain data that stays the same in every process and Python version: it stands in the identity
of a database, so that a job which declares another type is refused with the difference (`difference`). A class is
`{"class": its name, "fields": {name: type, or [type, "default"]}}`: fields with defaults may come, fields may go.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from typing import Any

import msgspec
import typing_extensions
from typing_extensions import is_typeddict

Schema = Any
"""str | list | dict of them."""

_UNIONS: tuple[object, ...] = (typing.Union, types.UnionType)


def plain_hint(hint: Any) -> bool:
    """Tell whether a hint says nothing: None, Any, object or a type variable."""
    return hint is None or hint is Any or hint is object or isinstance(hint, typing.TypeVar)


def bare(hint: Any) -> Any:
    """Strip what changes nothing in bytes: Annotated, NewType, aliases; and None from `T | None`, as None is null."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif hasattr(hint, "__metadata__") and hasattr(hint, "__origin__"):
            hint = hint.__origin__
        elif hasattr(hint, "__value__"):  # type X = ...
            hint = hint.__value__
        elif typing.get_origin(hint) in _UNIONS:
            members = [member for member in typing.get_args(hint) if member is not type(None)]
            if len(members) == len(typing.get_args(hint)):
                return hint
            hint = typing.Union[tuple(members)]  # noqa: UP007  (made at run time)
        else:
            return hint


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union without None; () if it is no union."""
    hint = bare(hint)
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else ()


def origin_of(hint: Any) -> Any:
    """Return the class that instances of a hint belong to: list of list[int], Order of Order; None for unions and Any."""
    hint = bare(hint)
    origin = typing.get_origin(hint) or hint
    if origin is collections.abc.Mapping or origin is collections.abc.MutableMapping:
        return dict
    if origin in (collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable):
        return list
    return origin if isinstance(origin, type) and origin is not object else None


def is_pydantic(cls: Any) -> bool:
    """Tell whether a class is a pydantic (2) model, without importing pydantic."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_core_schema__") and hasattr(cls, "model_validate")


def is_struct(cls: Any) -> bool:
    """Tell whether a class is a msgspec Struct."""
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def is_namedtuple(cls: Any) -> bool:
    """Tell whether a class is a NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def has_fields(cls: Any) -> bool:
    """Tell whether a class is a record: dataclass, Struct, pydantic model, TypedDict, NamedTuple."""
    if not isinstance(cls, type) and not is_typeddict(cls):
        return False
    return (
        dataclasses.is_dataclass(cls) or is_struct(cls) or is_pydantic(cls) or is_typeddict(cls) or is_namedtuple(cls)
    )


def fields_of(hint: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a record class: name -> (hint, whether it has a default), in their order."""
    cls = typing.get_origin(hint) or hint
    hints = typing_extensions.get_type_hints(cls)
    if is_pydantic(cls):
        return {name: (field.annotation, not field.is_required()) for name, field in cls.model_fields.items()}
    if is_struct(cls):
        required = cls.__struct_fields__[: len(cls.__struct_fields__) - len(cls.__struct_defaults__)]
        defaults = dict(
            zip(cls.__struct_fields__[len(required) :], cls.__struct_defaults__, strict=True)
        )
        return {
            name: (hints[name], name in defaults and defaults[name] is not msgspec.NODEFAULT)
            for name in cls.__struct_fields__
        }
    if is_typeddict(cls):
        return {name: (hint, name not in cls.__required_keys__) for name, hint in hints.items()}
    if is_namedtuple(cls):
        return {name: (hints.get(name, Any), name in cls._field_defaults) for name in cls._fields}
    missing = dataclasses.MISSING
    return {
        field.name: (hints[field.name], field.default is not missing or field.default_factory is not missing)
        for field in dataclasses.fields(cls)
        if field.init
    }


def schema(hint: Any) -> Schema:
    """Return a hint as plain data. Recursive classes end in their name."""
    return _schema(hint, ())


def _schema(hint: Any, seen: tuple[Any, ...]) -> Schema:
    if hint is type(None):
        return "None"
    if plain_hint(hint):
        return "plain"
    members = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else union_members(hint)
    if members:
        return ["union", *sorted((_schema(member, seen) for member in members), key=repr)]
    hint = bare(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return ["literal", *map(repr, arguments)]
    cls = origin or hint
    name = getattr(cls, "__name__", None) or str(cls)
    if cls in seen:
        return name
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return {"enum": name, "values": [repr(member.value) for member in cls]}
    if has_fields(cls) and cls.__module__ != "raystreams.stores.values":
        fields = {
            field: [_schema(hint, (*seen, cls)), "default"] if optional else _schema(hint, (*seen, cls))
            for field, (hint, optional) in fields_of(cls).items()
        }
        return {"class": name, "fields": fields}
    if not arguments:
        return name
    return [name, *("..." if argument is ... else _schema(argument, seen) for argument in arguments)]


def has_any(found: Schema) -> bool:
    """Tell whether a schema has a part that can be anything."""
    if isinstance(found, dict):
        return any(map(has_any, found.get("fields", {}).values()))
    if isinstance(found, list):
        return has_any(found[0]) if _optional(found) else any(map(has_any, found[1:]))
    return bool(found in ("plain", "list", "dict", "tuple", "set", "frozenset", "Windowed"))


def has_class(found: Schema) -> bool:
    """Tell whether a schema has a record class or an enum in it."""
    if isinstance(found, list):
        return any(map(has_class, found))
    return isinstance(found, dict)


def describe(found: Schema) -> str:
    """Return a schema as a person writes it: `dict[str, Order]`."""
    if isinstance(found, dict):
        return str(found.get("class") or found.get("enum"))
    if isinstance(found, list):
        if found[0] == "union":
            return " | ".join(map(describe, found[1:]))
        return f"{found[0]}[{', '.join(map(describe, found[1:]))}]"
    return "plain data" if found == "plain" else str(found)


def difference(stored: Schema, wanted: Schema, where: str = "") -> str | None:
    """Say why bytes of the stored type can't be read as the wanted one; None if they can.

    Values are stored by field name, so fields may go, and come with a default; a class may get another name.
    """
    if stored == wanted:
        return None
    at = f"field {where}: " if where else ""
    if isinstance(stored, dict) and isinstance(wanted, dict) and "class" in stored and "class" in wanted:
        return _difference_of_fields(stored["fields"], wanted["fields"], where)
    if isinstance(stored, dict) and isinstance(wanted, dict) and "enum" in stored and "enum" in wanted:
        gone = [value for value in stored["values"] if value not in wanted["values"]]
        return f"{at}enum {wanted['enum']} has lost {', '.join(gone)}" if gone else None
    if isinstance(stored, list) and isinstance(wanted, list) and stored[0] == wanted[0] and len(stored) == len(wanted):
        inside = (difference(a, b, where) for a, b in zip(stored[1:], wanted[1:], strict=True))
        return next((text for text in inside if text), None)
    if isinstance(wanted, list) and wanted[0] == "union":
        members = stored[1:] if isinstance(stored, list) and stored[0] == "union" else [stored]
        if where and all(any(difference(a, b, where) is None for b in wanted[1:]) for a in members):
            return None
    if where and (stored, wanted) == ("int", "float"):
        return None
    return f"{at}was {describe(stored)}, is {describe(wanted)}"


def _difference_of_fields(stored: dict[str, Schema], wanted: dict[str, Schema], where: str) -> str | None:
    for name, new in wanted.items():
        inner = f"{where}.{name}" if where else name
        if name not in stored:
            if not _optional(new):
                return f"field {inner} is new and has no default"
            continue
        text = difference(_without_default(stored[name]), _without_default(new), inner)
        if text:
            return text
    return None


def _optional(found: Schema) -> bool:
    return isinstance(found, list) and len(found) == 2 and found[1] == "default"


def _without_default(found: Schema) -> Schema:
    return found[0] if _optional(found) else found


def callable_name(thing: Any) -> str:
    """Return a name for messages: a class's or function's qualified name."""
    return getattr(thing, "__qualname__", None) or repr(thing)


def is_abstract_serde(thing: Any) -> bool:
    """Tell whether something is a Serde object: it has encode and decode, and is not a class."""
    return not inspect.isclass(thing) and hasattr(thing, "encode") and hasattr(thing, "decode") and not isinstance(
        thing, (str, bytes)
    )
