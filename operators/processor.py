"""Processors of the user's own (KIP-820): classes, or functions without arguments that make one for each task.

    class Alarm:
        def init(self, context): ...        # once, when the task starts; optional
        def process(self, record): ...      # each record, null keys and values too
        def close(self): ...                # when the task stops in good order, and after an `init` that failed; optional

Each task has a processor of its own, so a function that hands out the same object twice is refused when it is given.
What it keeps in its attributes is lost in a crash; what it keeps in stores is not. `stores` on the class or function lists
builders of stores that are added and connected with it.

After `process` the key counts as changed. A processor with stores relies on its key: where the key was changed before it,
its records are routed first, those without a key stay where they are.

What `process` raises goes the way of `on_error`; what it has stored or forwarded before stays (spec-runtime 5.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime
from raystreams.operators.hints import check_function
from raystreams.operators.options import Hint, OnError
from raystreams.operators.processor_context import NO_KEY, GlobalProcessorContext, ProcessorContext, store_name
from raystreams.operators.record import Headers, Process, Record
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.errors import RaystreamsError
from raystreams.stores.serdes import key_serde, value_serde
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream

K_contra = TypeVar("K_contra", contravariant=True, default=Any)
V_contra = TypeVar("V_contra", contravariant=True, default=Any)


class Processor(Protocol[K_contra, V_contra]):
    """What a processor has to have; `init(context)` and `close()` are called where there are any."""

    def process(self, record: Record[K_contra, V_contra]) -> object:
        """Take a record; what it returns is not looked at."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProcessor:
    """Runs a processor of the user's. `tables` are the stores that belong to tables; `keeps` is a global store."""

    supplier: Callable[[], Any]
    tables: frozenset[str] = frozenset()
    fixed_key: bool = False
    keeps: str | None = None

    def start(self, node: NodeRuntime) -> Process:
        make = ProcessorContext if self.keeps is None else GlobalProcessorContext
        context: ProcessorContext[Any, Any] = make(
            node, tables=self.tables, fixed_key=self.fixed_key, keeps=self.keeps
        )
        process_record = start_processor(self.supplier(), context, node).process
        failed = node.failed

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                process_record(Record(key, value, timestamp, headers))
            except Exception as error:
                failed(error, key, value, timestamp, headers)

        def process_values(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            context._key = key
            try:
                process_record(Record(key, value, timestamp, headers))
            except Exception as error:
                failed(error, key, value, timestamp, headers)
            finally:
                context._key = NO_KEY

        return process_values if self.fixed_key else process


def start_processor(processor: Any, context: Any, node: NodeRuntime) -> Any:
    """Call `init`, if there is one, and have `close` called when the task stops, or at once if `init` fails."""
    close = getattr(processor, "close", None)
    if (init := getattr(processor, "init", None)) is not None:
        try:
            init(context)
        except Exception as error:
            if close is not None:
                close()
            if isinstance(error, RaystreamsError):
                raise
            raise node.error(error, None, -1) from error
    if close is not None:
        node.when_closed(close)
    return processor


def add_processor(
    stream: KStream[Any, Any],
    supplier: Callable[[], Any],
    stores: Sequence[Any],
    key: Hint,
    value: Hint,
    name: str | None,
    on_error: OnError | None,
    *,
    fixed_key: bool,
) -> KStream[Any, Any]:
    """`KStream.process` and `process_values`."""
    from raystreams.operators.kstream import KStream

    check_supplier(supplier, "process")
    draft = stream._draft
    node = draft.named("KSTREAM-PROCESSVALUES-" if fixed_key else "KSTREAM-PROCESSOR-", name)
    names = connect_stores(draft, supplier, stores)
    parent = stream._keyed(node) if any(store not in draft.global_stores for store in names) else stream
    draft.add(
        node,
        lambda: UserProcessor(supplier=supplier, tables=tables_of(draft), fixed_key=fixed_key),
        [parent._node],
        stores=names,
        on_error=on_error,
        tolerates_null_keys=True,
    )
    if fixed_key:
        return KStream(draft, node, parent._key, value_serde(value), key_changed=parent._key_changed)
    return KStream(draft, node, key_serde(key), value_serde(value), key_changed=True)


def add_global_processor(
    draft: GraphDraft, source: str, supplier: Callable[[], Any], builder: StoreBuilder[Any], node: str
) -> str:
    """The processor that keeps a global store: it gets all records of the topic, in every task."""
    check_supplier(supplier, "process")
    if _declared(supplier):
        raise ValueError("the processor of a global store can't bring stores of its own; it keeps the one it was given")
    return draft.add(node, lambda: UserProcessor(supplier=supplier, keeps=builder.name), [source], stores=[builder.name])


def check_supplier(supplier: Callable[[], Any], method: str) -> None:
    """Raise TypeError for what makes no processors, and ValueError for what makes the same one twice."""
    check_function(supplier, "supplier")
    if isinstance(supplier, type):
        made: Any = supplier
    else:
        made = supplier()
        if made is supplier():
            raise ValueError(f"{supplier!r} returned the same processor twice; every task needs one of its own")
    if not callable(getattr(made, method, None)):
        raise TypeError(f"a processor needs a method {method!r}, and {made!r} has none")
    check_function(getattr(made, method), method)


def connect_stores(draft: GraphDraft, supplier: Callable[[], Any], stores: Sequence[Any]) -> list[str]:
    """The names of the given stores and of those that the supplier declares; builders among them are added."""
    if isinstance(stores, str):
        raise TypeError(f"stores= takes a list of stores, got the str {stores!r}")
    names: dict[str, None] = {}
    for store in [*stores, *_declared(supplier)]:
        names[draft.add_store(store) if isinstance(store, StoreBuilder) else store_name(store)] = None
    return list(names)


def tables_of(draft: GraphDraft) -> frozenset[str]:
    """The names of all stores that tables keep their rows in."""
    return frozenset(table.store for table in draft.tables.values() if table.store is not None)


def _declared(supplier: Callable[[], Any]) -> list[Any]:
    """`stores` of a supplier: a list, or a function without arguments that gives one."""
    declared = getattr(supplier, "stores", ())
    found: Iterable[Any] = declared() if callable(declared) else declared
    return list(found)
