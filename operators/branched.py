"""Splitting a stream: the first branch whose predicate holds takes the record (spec-runtime 1.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from raystreams.operators.hints import check_function
from raystreams.operators.options import check_name
from raystreams.operators.stateless import PassThrough, Split
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class BranchedKStream(Generic[K, V]):
    """A split that is being described. The result is a dict of streams, by splitter name + branch name.

    A branch without a name is called by its number, from 1; the default branch is 0. With `apply`, the dict holds
    what `apply(stream)` returns, and nothing for None.
    """

    def __init__(self, stream: KStream[K, V], node: str) -> None:
        self._stream, self._node = stream, node
        self._branches: list[tuple[Callable[[K, V], bool], str]] = []
        self._default: str | None = None
        self._ended = False
        self._results: dict[str, Any] = {}
        self._draft = stream._draft
        self._draft.add(node, lambda: Split(branches=tuple(self._branches), default=self._default), [stream._node])

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        *,
        name: str | None = None,
        apply: Callable[[KStream[K, V]], Any] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch; predicates are tried in this order. Returns the split itself."""
        check_function(predicate, "predicate")
        child = self._child(name if name is not None else str(len(self._branches) + 1))
        self._branches.append((predicate, child))
        self._add_result(child, apply)
        return self

    def default_branch(
        self, *, name: str | None = None, apply: Callable[[KStream[K, V]], Any] | None = None
    ) -> dict[str, KStream[K, V]]:
        """Everything that no branch took; ends the split."""
        self._default = self._child(name if name is not None else "0")
        self._add_result(self._default, apply)
        self._ended = True
        return self._results

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Let what no branch took vanish, uncounted; ends the split."""
        self._ended = True
        return self._results

    def _child(self, suffix: str) -> str:
        if self._ended:
            raise ValueError("the split has ended: add branches before default_branch() or no_default_branch()")
        return self._draft.add(check_name(self._node + suffix, "branch"), PassThrough, [self._node])

    def _add_result(self, child: str, apply: Callable[[KStream[K, V]], Any] | None) -> None:
        from raystreams.operators.kstream import KStream

        stream: KStream[K, V] = KStream(
            self._draft, child, self._stream._key, self._stream._value, key_changed=self._stream._key_changed
        )
        result = stream if apply is None else apply(stream)
        if result is not None:
            self._results[child] = result
