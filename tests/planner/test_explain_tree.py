"""Trees of plans as text, and as graphs."""

from __future__ import annotations

from sinkql import logical
from sinkql.explain import to_dot
from sinkql.explain.tree import dot, lines, tree
from sinkql.logical.type import TEXT
from sinkql.physical import Column, Map, Output, Read, Union

_READ = Read("n", "FILES", {"path": 'a"b'}, (Column("a", TEXT),))


def test_details_and_inputs_stand_below_what_they_belong_to() -> None:
    node = tree("top", "first", None, (each for each in ("second", tree("inner", "deep"))))
    assert list(lines(node)) == ["top", "  first", "  second", "  inner", "    deep"]


def test_a_graph_has_a_box_a_node_and_an_arrow_from_each_input() -> None:
    graph = to_dot(Union((Map(_READ, (Output("a", logical.Reference("a", logical.Type("text"))),)), _READ)))
    assert graph.splitlines() == [
        "digraph plan {",
        "  rankdir = BT;",
        "  node [shape = box];",
        '  n0 [label = "Union: append\\l"];',
        "  n1 -> n0;",
        '  n1 [label = "Map\\la text: a\\l"];',
        "  n2 -> n1;",
        '  n2 [label = "Read FILES: n\\lcolumns: a text\\lchanges: append\\lpath: a\\"b\\l"];',
        "  n3 -> n0;",
        '  n3 [label = "Read FILES: n\\lcolumns: a text\\lchanges: append\\lpath: a\\"b\\l"];',
        "}",
    ]


def test_a_graph_keeps_backslashes_and_line_ends_of_texts() -> None:
    assert '  n0 [label = "a\\\\b\\lc\\l"];' in dot(tree("a\\b\nc")).splitlines()
