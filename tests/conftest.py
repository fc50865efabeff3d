"""What holds for all tests.

A harness may start them in the background, where shells let SIGINT be ignored; a process inherits that, and tests of Ctrl-C
would wait for ever. A signal that is caught is not inherited.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
