"""What sources of files share: a path whose files are their splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from raystreams.cluster.connectors.files import FilePath, find_splits, split_path
from raystreams.cluster.connectors.row_format import RowSettings


@dataclass(frozen=True)
class FileSource(RowSettings):
    """Rows from a file, a folder or a glob; `suffixes` are those of the files that count in a folder."""

    suffixes: ClassVar[tuple[str, ...]]
    path: FilePath

    def splits(self) -> Sequence[str]:
        """Return the files' ids."""
        return list(find_splits(self.path, self.suffixes))

    def size(self, split: str) -> int | None:
        """Return a file's size."""
        return self.file_of(split).stat().st_size

    def file_of(self, split: str) -> Path:
        """Return the file of a split."""
        return split_path(self.path, split)
