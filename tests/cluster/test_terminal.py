"""What a run shows while it goes, and at its end."""

from __future__ import annotations

import io
import re

from raystreams.cluster.progress import Progress, SourceProgress, Summary
from raystreams.cluster.terminal import PlainLines, Rates, percent, shown, summary_text, time_text


def source(records: int, *, read: int | None = None, ended: bool = False) -> SourceProgress:
    return SourceProgress(
        topic="flights", records=records, event_time=1_357_034_400_000, bytes_read=read, bytes_total=1000, ended=ended
    )


def moment(seconds: float, records: int, *, read: int | None = None, ended: bool = False) -> Progress:
    return Progress(sources=[source(records, read=read, ended=ended)], seconds=seconds)


def test_plain_lines_come_every_few_seconds_and_at_the_end() -> None:
    out = io.StringIO()
    show = PlainLines(out, every=5)
    for second in range(13):
        show(moment(second, second * 1000, read=second * 50))
    show(moment(13, 13_000, read=1000, ended=True))
    show(moment(14, 13_000, read=1000, ended=True))

    assert out.getvalue().splitlines() == [
        "flights  5,000 records  1,000/s  2013-01-01 10:00:00Z  25 %",
        "flights  10,000 records  1,000/s  2013-01-01 10:00:00Z  50 %",
        "flights  13,000 records  done  2013-01-01 10:00:00Z  100 %",
    ]


def test_a_rate_is_of_the_last_seconds() -> None:
    rates = Rates()
    for second in range(20):
        rates.of(moment(second, 100 * second))

    assert rates.of(moment(21, 1900 + 2000))["flights"] == (3900 - 1600) / 5


def test_percent_is_100_only_at_the_end() -> None:
    assert percent(source(1, read=500)) == 50
    assert percent(source(1, read=1000)) == 99
    assert percent(source(1, read=1000, ended=True)) == 100
    assert percent(source(1)) is None
    assert percent(SourceProgress(topic="t", records=0)) is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_table_of_sources() -> None:
    out = Terminal()
    with shown(out) as show:
        show(moment(1, 1000, read=500))
        show(moment(2, 2500, read=750))

    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert re.search(r"source +records +rate +event time +read", text)
    assert re.search(r"flights +2,500 +1,500/s +2013-01-01 10:00:00Z +75 %", text)
    assert "00:00:02   Ctrl-C commits and stops" in text


def test_quiet_shows_nothing() -> None:
    out = Terminal()
    with shown(out, quiet=True) as show:
        show(moment(1, 1000))

    assert out.getvalue() == ""


def test_a_summary_has_counts_drops_and_dead_letters_by_reason() -> None:
    summary = Summary(
        sources={"flights": 336_776, "weather": 26_115},
        sinks={"out": 336_776},
        dropped={("by-hour", "late"): 12, ("departures", "null key"): 3},
        dead_letters={("bad", "bad row"): 2},
        seconds=12.34,
    )

    assert summary_text("flights", summary).splitlines() == [
        "flights finished in 12.3 s",
        "  read         336,776 flights",
        "                26,115 weather",
        "  written      336,776 out",
        "  dropped      12 by-hour: late",
        "                3 departures: null key",
        "  dead letters 2 bad: bad row",
    ]


def test_a_finished_job_is_said_to_be_finished() -> None:
    assert summary_text("flights", Summary(already_finished=True)).startswith("flights has finished already")


def test_times_beyond_the_calendar_are_numbers() -> None:
    assert time_text(0) == "1970-01-01 00:00:00Z"
    assert time_text(2**62) == str(2**62)
