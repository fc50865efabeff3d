"""The nearest right name to a wrong one, for texts of errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or what there is where nothing is near, to follow a text that names the wrong one.

    >>> "no key 'colunm'" + did_you_mean("colunm", ["column", "row"])
    "no key 'colunm'; did you mean 'column'?"
    """
    names = sorted(set(known))
    lower = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {lower[near[0]]!r}?"
    return f"; there are: {', '.join(names)}" if names else "; there are none"
