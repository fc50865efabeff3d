"""The last lines that a process has said: what is printed, and what is logged. So `raystreams logs` needs no file of any node."""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections import deque
from typing import TextIO

KEPT = 2_000
"""Lines that are kept."""

Line = tuple[int, float, str]
"""(number, seconds since the epoch, text)"""


class LogLines:
    """A buffer of lines, written by any thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._lines: deque[Line] = deque(maxlen=kept)
        self._count = 0
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Keep a line."""
        with self._lock:
            self._count += 1
            self._lines.append((self._count, time.time(), text))

    def after(self, number: int) -> list[Line]:
        """Return the kept lines after one."""
        with self._lock:
            return [line for line in self._lines if line[0] > number]

    def take_over(self) -> None:
        """Keep what this process prints and logs from now on; it is printed as before, too."""
        sys.stdout, sys.stderr = _Tee(sys.stdout, self), _Tee(sys.stderr, self)
        logger = logging.getLogger("raystreams")
        logger.setLevel(logging.INFO)
        logger.addHandler(_Handler(self))


class _Handler(logging.Handler):
    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self._kept = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's lines."""
        for line in self.format(record).splitlines():
            self._kept.add(line)


class _Tee(io.TextIOBase):
    def __init__(self, stream: TextIO, lines: LogLines) -> None:
        self._stream, self._kept = stream, lines
        self._begun = ""

    def write(self, text: str) -> int:
        """Write on, and keep the lines that are whole."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._kept.add(line)
        return self._stream.write(text)

    def flush(self) -> None:
        """Write on what waits."""
        self._stream.flush()

    def fileno(self) -> int:
        """The stream's own."""
        return self._stream.fileno()
