"""Records that have a part of any type (`payload: dict[str, Any]`), written as plain data, field by field.

msgspec alone would bring a Decimal, a tuple or a naive datetime in such a part back as text or a list, and an object as a
dict. Here what is declared is turned into plain data and back, and what is not is plain data, or refused when it is encoded.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from typing import Any

from raystreams.stores import hints
from raystreams.stores.errors import SerdeError, type_mismatch
from typing_extensions import is_typeddict

Change = Callable[[Any], Any]
Form = tuple[Change, Change]
"""How a value becomes plain data, and how it comes back."""


def form_of(hint: Any) -> Form | None:
    """Return how values of a type become plain data; None if they are plain data."""
    return _form(hint, {})


def _form(hint: Any, known: dict[Any, list[Form]]) -> Form | None:
    hint = hints.bare(hint)
    if not hints.has_class(hints.schema(hint)):
        return None
    members = hints.union_members(hint)
    if members:
        return _union(members, known)
    cls = typing.get_origin(hint) or hint
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return (lambda member: member.value), cls
    if hints.has_fields(cls):
        return _record(hint, cls, known)
    return _container(hint, hints.origin_of(hint), known)


def _optional(form: Form | None) -> Form | None:
    if form is None:
        return None
    away, back = form
    return (lambda value: None if value is None else away(value)), (lambda data: None if data is None else back(data))


def _record(hint: Any, cls: Any, known: dict[Any, list[Form]]) -> Form:
    if cls in known:  # a class that has itself as a part: its form is complete when it is used
        later = known[cls]
        return (lambda value: later[0][0](value)), (lambda data: later[0][1](data))
    known[cls] = []
    parts = {name: _optional(_form(part, known)) for name, (part, _) in hints.fields_of(hint).items()}
    mapped = is_typeddict(cls)

    def away(value: Any) -> Any:
        if mapped:
            found = {name: value[name] for name in parts if name in value}
        elif isinstance(value, cls):
            found = {name: getattr(value, name) for name in parts}
        else:
            raise type_mismatch(cls.__qualname__, value, "value")
        return {name: part if (form := parts[name]) is None else form[0](part) for name, part in found.items()}

    def back(data: Any) -> Any:
        found = {
            name: part if (form := parts[name]) is None else form[1](part) for name, part in data.items() if name in parts
        }
        return found if mapped else cls(**found)

    known[cls].append((away, back))
    return away, back


def _container(hint: Any, cls: Any, known: dict[Any, list[Form]]) -> Form:
    arguments = typing.get_args(hint)
    if cls is dict:
        key, value = (_optional(_form(part, known)) or (_same, _same) for part in arguments)
        return (
            (lambda given: {key[0](name): value[0](part) for name, part in given.items()}),
            (lambda data: {key[1](name): value[1](part) for name, part in data.items()}),
        )
    if cls is tuple and arguments[-1] is not ...:
        forms = [_optional(_form(part, known)) or (_same, _same) for part in arguments]
        return (
            (lambda given: tuple(form[0](part) for form, part in zip(forms, given, strict=True))),
            (lambda data: tuple(form[1](part) for form, part in zip(forms, data, strict=True))),
        )
    if cls in (list, tuple, set, frozenset):
        away, back = _optional(_form(arguments[0], known)) or (_same, _same)
        # Records are no elements of plain sets, as they are dicts there; a list holds them.
        outside = list if cls in (set, frozenset) else cls
        return (lambda given: outside(map(away, given))), (lambda data: cls(map(back, data)))
    name = hints.describe(hints.schema(hint))
    raise SerdeError(f"{name} can't be written with a part that can be anything: declare that part, or give a Serde")


def _union(members: tuple[Any, ...], known: dict[Any, list[Form]]) -> Form:
    names = [hints.describe(hints.schema(member)) for member in members]
    forms = {name: _form(member, known) or (_same, _same) for name, member in zip(names, members, strict=True)}
    classes = [(hints.origin_of(member) or object, name) for member, name in zip(members, names, strict=True)]

    def away(value: Any) -> Any:
        for cls, name in classes:
            if isinstance(value, cls):
                return [name, forms[name][0](value)]
        raise type_mismatch(" | ".join(names), value, "value")

    return away, lambda data: forms[data[0]][1](data[1])


def _same(value: Any) -> Any:
    return value
