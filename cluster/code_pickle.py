"""A job as bytes for another process, where the user's modules are importable and this process's `__main__` is not.

By cloudpickle, with what it lacks:

    a lambda or local function of a module      its globals are those of the module, imported there. cloudpickle would copy
                                                them: locks and connections can't be, and a copy is no longer shared
    classes of `__main__`, and local ones       without the caches that msgspec keeps in them, which can't be pickled; names
                                                in annotations are resolved here, since they aren't known there
    a `msgspec.Struct` of `__main__`            made again by its own metaclass
    MISSING of dataclasses                      the one object, which is compared by identity

`culprit` names what can't be pickled: it tries the parts of a value one after another, and those of the part that fails.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import io
import pickle
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from raystreams.cluster import user_code

_DEEPEST = 12
_MAIN = ("__main__", "__mp_main__")
_SENTINELS = ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")
_NO_STATE = frozenset(("__dict__", "__weakref__", "__slots__", "__module__", "__msgspec_cache__", "__struct_config__"))


def dumps(value: Any) -> bytes:
    """Pickle a value; raises whatever something in it raises that can't be pickled."""
    with io.BytesIO() as file:
        _pickler()(file).dump(value)
        return file.getvalue()


@functools.lru_cache(maxsize=1)
def _pickler() -> type[pickle.Pickler]:
    from ray import cloudpickle

    class CodePickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined, unused-ignore]  # untyped
        """cloudpickle's, see the module."""

        def reducer_override(self, obj: Any) -> Any:
            """Return how an object is pickled; NotImplemented for the usual way."""
            for name in _SENTINELS:
                if obj is getattr(dataclasses, name, None):
                    return name
            reduced = super().reducer_override(obj)  # type: ignore[no-untyped-call, unused-ignore]
            if not isinstance(reduced, tuple) or len(reduced) != 6:
                return reduced
            if isinstance(obj, types.FunctionType):
                return _function(obj, reduced)
            return _struct(obj) if issubclass(obj, msgspec.Struct) else _class(obj, reduced)

    return CodePickler


def _function(function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    if not _is_of_module(function):
        return reduced
    make, (code, _, *rest), (attributes, slots), *setting = reduced
    return make, (code, _Globals(function.__module__), *rest), (attributes, {**slots, "__globals__": {}}), *setting


def _is_of_module(function: types.FunctionType) -> bool:
    """Whether a function's globals are those of a module that can be imported."""
    module = sys.modules.get(function.__module__ or "")
    return (
        module is not None
        and module.__name__ not in _MAIN
        and getattr(module, "__file__", None) is not None
        and vars(module) is function.__globals__
    )


class _Globals:
    """Becomes the globals of a module."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return globals_of, (self._module,)


def globals_of(module: str) -> dict[str, Any]:
    """Return the globals of a module, imported if it has to be. Pickles refer to it."""
    return vars(importlib.import_module(module))


def _class(cls: type[Any], reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    make, made_of, (attributes, slots), *setting = reduced
    kept = {name: value for name, value in attributes.items() if name != "__msgspec_cache__"}
    if "__annotations__" in kept:
        kept["__annotations__"] = _annotations(cls)
    return make, made_of, (kept, slots), *setting


def _annotations(cls: type[Any]) -> dict[str, Any]:
    """A class's own annotations; those of `__main__` resolved, as far as they can be."""
    own: dict[str, Any] = dict(vars(cls).get("__annotations__", {}))
    if cls.__module__ in _MAIN and any(isinstance(hint, (str, typing.ForwardRef)) for hint in own.values()):
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except Exception:  # a name of a function's, or whatever the annotation raises: it stays as it is written
            return own
        own = {name: hints.get(name, hint) for name, hint in own.items()}
    return own


def _struct(cls: type[msgspec.Struct]) -> tuple[Any, ...]:
    own = _annotations(cls)
    config = cls.__struct_config__
    settings = {name: getattr(config, name) for name in dir(config) if not name.startswith("_")}
    fields = {}
    defaults = cls.__struct_defaults__
    required = len(cls.__struct_fields__) - len(defaults)
    for number, (name, encoded) in enumerate(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)):
        if name in own:
            default = defaults[number - required] if number >= required else msgspec.NODEFAULT
            fields[name] = (encoded, default.factory, True) if hasattr(default, "factory") else (encoded, default, False)
    keywords = _keywords(cls)
    settings["kw_only"] = any(name in keywords for name in fields)
    bases = vars(cls).get("__orig_bases__", cls.__bases__)
    generated = _NO_STATE | set(cls.__struct_fields__)
    state = {name: value for name, value in vars(cls).items() if name not in generated} | {"__annotations__": own}
    has_post_init = "__post_init__" in vars(cls)
    named = (cls.__name__, cls.__qualname__, cls.__module__)
    return make_struct, (named, bases, fields, settings, has_post_init), state, None, None, finish_struct


def _keywords(cls: type[Any]) -> set[str]:
    import inspect

    parameters = inspect.signature(cls).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def make_struct(
    named: tuple[str, str, str],
    bases: tuple[Any, ...],
    fields: Mapping[str, tuple[str, Any, bool]],
    settings: Mapping[str, Any],
    has_post_init: bool,
) -> Any:
    """Return a Struct class with these fields: `(name in the encoded form, default or factory, whether it is a factory)`.

    What may refer to the class itself, annotations and methods, `finish_struct` adds. Pickles refer to both.
    """
    name, qualname, module = named
    space: dict[str, Any] = {"__module__": module, "__qualname__": qualname, "__annotations__": dict.fromkeys(fields, Any)}
    for field, (encoded, default, is_factory) in fields.items():
        given = {"default_factory" if is_factory else "default": default} if default is not msgspec.NODEFAULT else {}
        space[field] = msgspec.field(name=encoded, **given)
    if has_post_init:
        space["__post_init__"] = _late_post_init
    return types.new_class(name, bases, dict(settings), lambda body: body.update(space))


def finish_struct(cls: Any, state: Mapping[str, Any]) -> None:
    """Give a Struct class its annotations, methods and other attributes."""
    for name, value in state.items():
        setattr(cls, name, value)


def _late_post_init(self: Any) -> None:
    # A Struct class looks its `__post_init__` up when it is made; by now it has its own.
    type(self).__post_init__(self)


def culprit(value: Any, error: BaseException) -> str:
    """Return what in a value can't be pickled, which as a whole failed with an error."""
    text, seen = "", set[int]()
    for _ in range(_DEEPEST):
        seen.add(id(value))
        for label, part in _parts(value):
            failed = None if id(part) in seen else failure(part)
            if failed is not None:
                text += f"{', whose' if text else 'its'} {label} is {_name(part)}"
                value, error = part, failed
                break
        else:
            break
    return f"{text or f'it is {_name(value)}'} ({user_code.describe(error)})"


def failure(value: Any) -> Exception | None:
    """Return what pickling a value raises, None if it can be pickled."""
    try:
        dumps(value)
    except Exception as error:
        return error
    return None


def _name(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        code = value.__code__
        return f"the function {value.__qualname__!r} at {code.co_filename}:{code.co_firstlineno}"
    if isinstance(value, type):
        return f"the class {value.__qualname__!r}"
    module = type(value).__module__
    return f"a {type(value).__qualname__}" if module == "builtins" else f"a {module}.{type(value).__qualname__}"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value refers to, and how."""
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield "object", value.__self__
        yield "function", value.__func__
    elif isinstance(value, functools.partial):
        yield "function", value.func
        yield "arguments", value.args
        yield "arguments", value.keywords
    elif isinstance(value, Mapping):
        yield from ((f"item {key!r}", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"item {number}", part) for number, part in enumerate(value))
    elif isinstance(value, type):
        yield from ((f"attribute {name!r}", part) for name, part in vars(value).items() if not name.startswith("__"))
    elif type(value).__module__ != "builtins":
        names = [*getattr(value, "__dict__", ()), *_slots(type(value))]
        yield from ((f"attribute {name!r}", getattr(value, name)) for name in names if hasattr(value, name))
        if type(value).__module__ in _MAIN:
            yield "class", type(value)


def _slots(cls: type[Any]) -> Iterator[str]:
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"variable {name!r}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if not _is_of_module(function):
        for name in dict.fromkeys(_names(function.__code__)):
            if name in function.__globals__:
                yield f"variable {name!r}", function.__globals__[name]
    yield from (("default", default) for default in function.__defaults__ or ())
    yield from ((f"default of {name!r}", default) for name, default in (function.__kwdefaults__ or {}).items())


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def loads(data: bytes) -> Any:
    """Unpickle what `dumps` returned."""
    from ray import cloudpickle

    return cloudpickle.loads(data)
