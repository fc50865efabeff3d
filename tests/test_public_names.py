"""`raystreams/__init__.py` is the one list of public names, and it is true."""

from __future__ import annotations

import subprocess
import sys

import pytest

import raystreams

# Names that carry no docstring of their own: aliases of types, and constants.
PLAIN = {"Duration", "NO_HEADERS", "OnError", "PUT_LATEST", "PUT_REFUSED", "Position", "Time", "__version__"}


def test_the_list_is_sorted_and_has_no_doubles() -> None:
    assert list(raystreams.__all__) == sorted(set(raystreams.__all__))


@pytest.mark.parametrize("name", raystreams.__all__)
def test_a_public_name_exists_and_says_what_it_is(name: str) -> None:
    doc = getattr(raystreams, name).__doc__ or ""

    # A dataclass without a docstring gets its signature for one.
    assert name in PLAIN or (doc and not doc.startswith(f"{name}(")), f"{name} has no docstring"


def test_dir_shows_the_public_names() -> None:
    assert set(raystreams.__all__) <= set(dir(raystreams))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = raystreams.no_such_name


def test_importing_raystreams_does_not_import_ray() -> None:
    program = """
import raystreams, sys
for name in raystreams.__all__:
    getattr(raystreams, name)
sys.exit("ray" in sys.modules)
"""

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
