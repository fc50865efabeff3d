"""`Topology.describe()` in Kafka Streams' layout (spec-runtime 6.5), and as a Mermaid flow chart."""

from __future__ import annotations

import re
from typing import Any

from raystreams import Materialized, Record, Stores, StreamsBuilder


def test_the_layout_is_kafkas_to_the_blank() -> None:
    builder = StreamsBuilder()
    builder.stream(["b", "a"]).filter(lambda key, value: True).to("out")

    assert builder.build().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [a, b])\n"
        "      --> KSTREAM-FILTER-0000000001\n"
        "    Processor: KSTREAM-FILTER-0000000001 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000002\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Sink: KSTREAM-SINK-0000000002 (topic: out)\n"
        "      <-- KSTREAM-FILTER-0000000001\n"
        "\n"
    )


def test_later_sub_topologies_are_indented_by_two_and_channels_are_topics() -> None:
    builder = StreamsBuilder()
    builder.stream("in").repartition(name="again").to("out")

    assert builder.build().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> again-repartition-sink\n"
        "    Sink: again-repartition-sink (topic: again-repartition)\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "\n"
        "  Sub-topology: 1\n"
        "    Source: again-repartition-source (topics: [again-repartition])\n"
        "      --> KSTREAM-SINK-0000000005\n"
        "    Sink: KSTREAM-SINK-0000000005 (topic: out)\n"
        "      <-- again-repartition-source\n"
        "\n"
    )


def test_a_global_store_is_a_part_without_tasks() -> None:
    builder = StreamsBuilder()
    builder.stream("in").for_each(print)
    builder.global_table("names", materialized=Materialized.key_value("names-store"))

    assert builder.build().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-FOREACH-0000000001\n"
        "    Processor: KSTREAM-FOREACH-0000000001 (stores: [])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "\n"
        "  Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: KSTREAM-SOURCE-0000000002 (topics: [names])\n"
        "      --> KTABLE-SOURCE-0000000003\n"
        "    Processor: KTABLE-SOURCE-0000000003 (stores: [names-store])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000002\n"
    )


def test_patterns_dynamic_topics_and_the_larger_branch_first() -> None:
    def chosen(key: Any, value: Any, context: Any) -> str:
        return "out"

    builder = StreamsBuilder()
    stream = builder.stream(re.compile("in-.*"))
    stream.peek(print, name="small")
    stream.map_values(str, name="large").to(chosen, name="sink")

    lines = builder.build().describe().splitlines()
    assert lines[2:4] == [
        "    Source: KSTREAM-SOURCE-0000000000 (topics: in-.*)",
        "      --> large, small",
    ]
    order = [line.split()[1] for line in lines if line.startswith("    ") and not line.startswith("     ")]
    assert order == ["KSTREAM-SOURCE-0000000000", "large", "sink", "small"]
    assert any(line.startswith("    Sink: sink (extractor class: ") and "chosen" in line for line in lines)


def test_parts_that_share_a_store_are_one_sub_topology() -> None:
    class Keep:
        def process(self, record: Record[Any, Any]) -> None: ...

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("shared"))
    for topic in ("a", "b"):
        builder.stream(topic).process(Keep, stores=["shared"], name=f"keep-{topic}")

    text = builder.build().describe()
    assert text.count("Sub-topology") == 1
    assert "    Processor: keep-a (stores: [shared])\n" in text


def test_a_foreign_key_join_has_its_parts_where_the_tables_are() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("L"), builder.table("R")
    left.join(right, lambda v, w: [v, w], foreign_key=lambda v: v, name="j").to_stream().to("out")

    first, second = builder.build().describe().split("Sub-topology: 1")
    assert "Processor: j-subscription-registration-processor" in first
    assert "Processor: j-subscription-response-resolver" in first
    assert "Processor: j-foreign-join-subscription (stores: [j-subscription-store])" in second


def test_as_a_mermaid_flow_chart() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile('in"<')).repartition(name="again").to_table(
        materialized=Materialized.key_value("rows"), name="t"
    ).to_stream(name="s").to("out", name="o")

    assert builder.build().to_mermaid() == (
        "flowchart TD\n"
        '    subgraph sub0["Sub-topology 0"]\n'
        '        n0[/"KSTREAM-SOURCE-0000000000<br/>in#quot;#lt;"/]\n'
        '        n1(["again-repartition-sink"])\n'
        "    end\n"
        '    subgraph sub1["Sub-topology 1"]\n'
        '        n2(["again-repartition-source"])\n'
        '        n3["t"]\n'
        '        n4["s"]\n'
        '        n5[\\"o<br/>out"\\]\n'
        '        s0[("rows")]\n'
        "    end\n"
        "    n0 --> n1\n"
        '    n1 -. "again-repartition" .-> n2\n'
        "    n2 --> n3\n"
        "    n3 --- s0\n"
        "    n3 --> n4\n"
        "    n4 --> n5\n"
    )
