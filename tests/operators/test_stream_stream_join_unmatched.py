"""When left and outer joins of streams give out what met no other (spec-joins 7.3, 7.4, vectors SS-10 to SS-31)."""

from __future__ import annotations

from typing import Any

from raystreams import Record, TopologyTestDriver
from tests.operators.scenario import Scenario, rows, run
from tests.operators.stream_joins import joined


def check(vector: str, method: str, **windows: Any) -> None:
    run(joined(method, **windows), rows(vector))


def test_ss_10_they_come_out_before_the_records_own_results() -> None:
    vector = """
        L 0 A0 0    ->  -
        L 1 A1 100  ->  -
        R 1 a1 110  ->  0:A0-null@0 1:A1-a1@110
    """

    check(vector, "left_join", before=100, after=100)


def test_ss_11_equal_ones_all_come_out() -> None:
    vector = """
        L 0 A0 0       ->  -
        L 0 A0-0 0     ->  -
        R 1 a0 111     ->  0:A0-null@0 0:A0-0-null@0
        R 2 dummy 500  ->  -
        L 2 A2 1000    ->  -
        L 2 A2-0 1000  ->  -
        R 2 a2 1001    ->  2:A2-a2@1001 2:A2-0-a2@1001
        R 3 a3 315     ->  -
    """

    lines = rows(vector)
    lines[-1] = (lines[-1][0], "- #dropped+1")  # at 315, when the right window had come to 1001
    run(joined("left_join", before=100, after=100, grace=10), lines)


def test_ss_12_records_of_the_other_side_let_them_out_too() -> None:
    vector = """
        L 0 A0 1       ->  -
        L 1 A1 2       ->  -
        L 0 A0-0 3     ->  -
        R 1 a1 3       ->  1:A1-a1@3
        R 2 dummy 401  ->  0:A0-null@1 0:A0-0-null@3
        L 2 dummy 402  ->  2:dummy-dummy@402
    """

    check(vector, "left_join", before=100, after=100)


def test_ss_13_at_one_time_the_right_side_comes_first() -> None:
    vector = """
        L 0 A0 0      ->  -
        L 0 A0-0 0    ->  -
        R 1 11 0      ->  -
        R 1 12 0      ->  -
        R 1 10 111    ->  1:null-11@0 1:null-12@0 0:A0-null@0 0:A0-0-null@0
        R 3 100 211   ->  -
        L 2 A2 200    ->  -
        L 2 A2-0 200  ->  -
        R 2 13 201    ->  2:A2-13@201 2:A2-0-13@201
        R 2 14 201    ->  2:A2-14@201 2:A2-0-14@201
        R 3 100 1500  ->  1:null-10@111 3:null-100@211
    """

    check(vector, "outer_join", before=100, after=100, grace=10)


def test_ss_14_asymmetric_windows() -> None:
    vector = """
        L a A0 29  ->  -
        L b A1 30  ->  -
        R c 12 31  ->  -
        R d 13 36  ->  -
        R e 14 37  ->  c:null-12@31
        R f 15 50  ->  a:A0-null@29 d:null-13@36 e:null-14@37
    """

    check(vector, "outer_join", before=5, after=20)


def test_ss_15_both_sides_bounds_are_looked_at() -> None:
    """DECISION: Kafka looks at the bound of the record's own side, and is 100 ms late here."""
    vector = """
        L a 1 1000  ->  -
        R z 0 1001  ->  -
        R z 0 1050  ->  -
        R z 0 1101  ->  a:1-null@1000
        R z 0 1102  ->  -
        L q 0 1103  ->  -
    """
    lines = rows(vector)
    lines[1], lines[3] = ("R z 0 1001", "a:1-null@1000"), ("R z 0 1101", "-")

    run(joined("left_join", before=100), lines)


def test_ss_19_late_records() -> None:
    """o2 is within grace still, and waits."""
    vector = """
        L k A 100      ->  -
        L z Z 116      ->  k:A-null@100
        L k late1 95   ->  k:late1-null@95
        L k late2 106  ->  -
        L k late3 85   ->  k:late3-null@85
        R k r 90       ->  k:late1-r@95 k:A-r@100
        R z q 200      ->  k:late2-null@106 z:Z-null@116
        L y old 150    ->  y:old-null@150
        L y old2 185   ->  y:old2-null@185
        L y o3 191     ->  -
    """
    lines = rows(vector)
    lines[8] = ("L y old2 185", "-")
    lines[4] = (lines[4][0], lines[4][1] + " #dropped+1")  # late3 at 85, when the left window had come to 116

    run(joined("left_join", before=10, after=10, grace=5), lines)


def test_ss_20_within_grace_a_record_waits() -> None:
    """DECISION (KAFKA-19536): Kafka gives A-null out at once, and A-a after it."""
    check("L z Z 116 -> - \n L k A 104 -> - \n R k a 104 -> k:A-a@104", "left_join", before=10, after=10, grace=5)


def test_ss_21_nothing_comes_out_later_than_it_could() -> None:
    """DECISION: Kafka gives b and c out one record later."""
    vector = """
        L a 1 1   ->  -
        L b 2 8   ->  -
        L c 3 9   ->  -
        R z 0 12  ->  a:1-null@1
        R z 0 18  ->  -
        R z 0 19  ->  -
        R z 0 20  ->  b:2-null@8 c:3-null@9
    """
    lines = rows(vector)
    lines[5:] = [("R z 0 19", "b:2-null@8"), ("R z 0 20", "c:3-null@9")]

    run(joined("left_join", before=10, after=10), lines)


def test_ss_22_headers_are_those_of_the_record_that_lets_them_out() -> None:
    vector = """
        L 0 A0 0 1     ->  -
        R 1 10 0 2     ->  -
        R 3 100 211 3  ->  1:null-10@0<h=3> 0:A0-null@0<h=3>
        L 2 A2 200 4   ->  -
        R 2 12 200 5   ->  2:A2-12@200<h=5>
    """

    check(vector, "outer_join", before=100, after=100, grace=10)


def test_ss_23_grace() -> None:
    vector = """
        L 0 A0 0     ->  -
        R 1 11 0     ->  -
        L 1 A1 101   ->  -
        R 0 10 101   ->  -
        R 0 100 112  ->  1:null-11@0 0:A0-null@0
    """

    check(vector, "outer_join", before=100, after=100, grace=10)


def test_ss_26_the_order_of_what_comes_out_together() -> None:
    vector = """
        L b 1 10 h1  ->  -
        L a 2 10 h2  ->  -
        R c 3 10 h3  ->  -
        R d 4 9 h4   ->  -
        L e 5 8 h5   ->  -
        R f 6 24 h6  ->  e:5-null@8<h=h6>
        R f 7 25 h7  ->  -
        R f 8 26 h8  ->  d:null-4@9<h=h8> c:null-3@10<h=h8> a:2-null@10<h=h8> b:1-null@10<h=h8>
    """

    lines = rows(vector)
    # DECISION: d is past its window at 25, and does not wait for the next record as in Kafka.
    d, rest = lines[7][1].split(" ", 1)
    lines[6:] = [(lines[6][0], d.replace("h8", "h7")), (lines[7][0], rest)]

    run(joined("outer_join", before=10, after=10, grace=5), lines)


def test_ss_27_a_window_after_the_record() -> None:
    vector = """
        L 0 A0 0    ->  -
        L 1 A1 1    ->  -
        R 0 10 100  ->  0:A0-10@100
        R 1 11 102  ->  1:A1-null@1
        R 2 12 103  ->  1:null-11@102
        L 2 A2 103  ->  2:A2-12@103
    """

    check(vector, "outer_join", after=100)


def test_ss_28_a_window_before_the_record() -> None:
    vector = """
        L 0 A0 0    ->  -
        L 1 A1 1    ->  0:A0-null@0
        R 1 11 1    ->  1:A1-11@1
        R 2 12 101  ->  -
        R 3 13 101  ->  -
        L 2 A2 201  ->  2:A2-12@201
    """

    check(vector, "outer_join", before=100)


def test_ss_29_a_left_join_with_a_window_after_the_record() -> None:
    vector = """
        L 0 A0 0    ->  -
        L 1 A1 1    ->  -
        R 0 a0 100  ->  0:A0-a0@100
        R 1 a1 102  ->  1:A1-null@1
    """

    check(vector, "left_join", after=100)


def test_ss_30_one_match_is_a_match_for_all_of_its_time() -> None:
    vector = """
        L k A 10   ->  -
        L k A2 10  ->  -
        R k a 12   ->  k:A-a@12 k:A2-a@12
        R z z 50   ->  -
        R z z 90   ->  -
    """

    check(vector, "left_join", before=10, after=10)


def test_ss_31_a_null_key_moves_time_and_lets_nothing_out() -> None:
    vector = """
        L k A 1      ->  -
        L ~ n 100 h  ->  null:n-null@100<h=h>
        L z q 100    ->  k:A-null@1
    """

    check(vector, "left_join", before=10, after=10)


# ---- the end, watermarks, crashes


def test_at_the_end_of_both_inputs_all_come_out_in_order() -> None:
    with Scenario(joined("outer_join", before=10, after=10, grace=100)) as scenario:
        for line in ("L b 1 10 h", "R c 2 10", "L a 3 10", "R d 4 5", "L m 5 7", "R m 6 8"):
            scenario.send(line)
        assert scenario.driver.output_topic("out").read_all() == [Record("m", "5-6", 8)]

        scenario.driver.end_of_input()

        assert scenario.driver.output_topic("out").read_all() == [
            Record("d", "null-4", 5),
            Record("c", "null-2", 10),
            Record("a", "3-null", 10),
            Record("b", "1-null", 10),
        ]


def test_a_watermark_lets_out_what_a_record_of_its_time_would() -> None:
    with Scenario(joined("left_join", before=10, after=10, grace=5)) as scenario:
        scenario.check([("L k A 100", "-")])
        scenario.driver.advance_event_time(115)
        assert scenario.driver.output_topic("out").read_all() == []

        scenario.driver.advance_event_time(116)

        assert scenario.driver.output_topic("out").read_all() == [Record("k", "A-null", 100)]
        # Time has come to 116 for all that follows.
        scenario.check([("L k late 100", "k:late-null@100"), ("L k B 101", "-"), ("L k C 50", "k:C-null@50 #dropped+1")])


def test_unmatched_records_survive_a_crash_and_come_out_once() -> None:
    with TopologyTestDriver(joined("outer_join", before=10, after=10), auto_commit=False) as driver:
        left, right = driver.input_topic("L"), driver.input_topic("R")
        left.send("A", key="k", timestamp=0)
        left.send("B", key="m", timestamp=0)
        driver.commit()
        right.send("b", key="m", timestamp=5)
        driver.crash()
        driver.commit()
        driver.crash()
        right.send("z", key="z", timestamp=11)
        driver.crash()
        driver.commit()

        assert driver.output_topic("out").read_all() == [Record("m", "B-b", 5), Record("k", "A-null", 0)]
