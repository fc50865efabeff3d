"""What stores raise, and the root of everything that we raise ourselves.

    RaystreamsError
    ├── SerdeError              a value or key can't be turned into bytes, or bytes into it
    └── StoreError              a store can't do what was asked
        ├── ClosedStoreError        it, or an iterator over it, has been closed
        ├── CorruptedStoreError     files on disk are damaged
        ├── StoreMismatchError      what is on disk was written by something else
        └── StateLockedError        another process has the files open

A wrong argument is a ValueError or a TypeError at the call that has it, and none of these.
`args` of each are its constructor's arguments: an error has to survive pickling to reach a Ray caller (layout rule 7).
"""

from __future__ import annotations


class RaystreamsError(Exception):
    """Base of all errors that raystreams raises itself."""


class SerdeError(RaystreamsError):
    """A key or value can't be encoded or decoded; the text names the type and what to do."""


def type_mismatch(expected: str, given: object, what: str) -> TypeError:
    """Return the error for a value or key of another type than its topic, store or operator declares."""
    kind = type(given)
    text = f"the {what} {given!r} is a {kind.__qualname__}, and {expected} is declared"
    module = kind.__module__.partition(".")[0]
    if module in ("numpy", "pandas"):
        text += f": turn the {module} value into a Python one, e.g. with .item()"
    return TypeError(text)


class StoreError(RaystreamsError):
    """A store can't do what was asked."""


class ClosedStoreError(StoreError):
    """A store, its database or an iterator over it was used after it had been closed."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed"


class CorruptedStoreError(StoreError):
    """Files of a database are damaged. They are never repaired silently: a repair may bring back old rows."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(path, detail)
        self.path, self.detail = path, detail

    def __str__(self) -> str:
        return (
            f"the state in {self.path} is damaged: {self.detail}. Restore all folders of the job from one copy, "
            f"or forget its state and build it again from the sources: `raystreams reset`"
        )


class StoreMismatchError(StoreError):
    """What is on disk was written by another job, partition, format or kind of store than the one that opens it."""

    def __init__(self, where: str, what: str, stored: object, wanted: object) -> None:
        super().__init__(where, what, stored, wanted)
        self.where, self.what, self.stored, self.wanted = where, what, stored, wanted

    def __str__(self) -> str:
        return f"{self.where} was written with {self.what} {self.stored!r}, and is now opened with {self.wanted!r}"


class StateLockedError(StoreError):
    """Another process, or another task of this one, has the database open."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"the state in {self.path} is in use by another process. Stop the job that runs on it, "
            f"or give this one another state_dir"
        )
