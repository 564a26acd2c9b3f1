"""The help of \\h is correct: examples parse, and every statement of the grammar has help."""

from __future__ import annotations

import re

import pytest

from sinkql.connector_api.option_help import offered
from sinkql.connector_api.registry import discover
from sinkql.documentation import Documentation
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.parser.assist import syntax_help as grammar
from sinkql.shell.command.help import Topic, help_on_statement, topics
from sinkql.shell.screen import document

_REGISTRY = discover()


def _help(text: str) -> str:
    return help_on_statement(text, _REGISTRY)


@pytest.mark.parametrize("entry", topics(), ids=lambda entry: str(entry.name))
def test_the_example_of_a_statement_parses(entry: Topic) -> None:
    assert len(parse(entry.example)) == 1


def test_every_statement_of_the_grammar_has_help() -> None:
    assert set(grammar.statements()) == {each.rule for each in topics()}


@pytest.mark.parametrize("rule", grammar.statements())
def test_the_syntax_has_no_name_of_the_grammar_in_it_and_closes_its_brackets(rule: str) -> None:
    text = grammar.syntax(rule)
    assert "_" not in text
    assert not re.search(r"\"|->|\bMAYBE\b", text)
    outside = re.sub(r"'text'", "", text)
    for opening, closing in (("[", "]"), ("{", "}"), ("(", ")")):
        assert outside.count(opening) == outside.count(closing), text
    for named in set(re.findall(r"<([a-z ]+)>", text)):
        described = f"\n<{named}> is\n" in text
        assert described or named.replace(" ", "_") in {*grammar.statements(), rule}, named


def test_of_a_statement_of_many_forms_its_own_is_shown() -> None:
    assert "ALTER SINK" in _help("ALTER SINK")
    assert "ALTER SOURCE" not in _help("ALTER SINK")


def test_the_syntax_of_a_sink_names_its_clauses() -> None:
    text = _help("create sink")
    for part in ("CREATE SINK", "[ IN CLUSTER name ]", "KEY ( name [, …] )", "MODE { UPSERT | APPEND }"):
        assert part in text


def test_more_words_than_the_name_has_find_it_and_fewer_list_what_begins_so() -> None:
    assert _help("DROP SINK x").startswith("DROP\n")
    listed = _help("CREATE")
    assert {line.split("  ")[1] for line in listed.splitlines()} >= {
        "CREATE SINK",
        "CREATE SOURCE",
    }


def test_a_misspelt_statement_is_told_the_nearest() -> None:
    with pytest.raises(SinkqlError) as raised:
        _help("CREATE SINKK")
    assert raised.value.hint == "Did you mean \\h CREATE SINK?"


def test_of_two_statements_of_one_rule_each_shows_its_forms() -> None:
    text = _help("CREATE MATERIALIZED VIEW")
    assert "[ OR REPLACE ]\n      MATERIALIZED VIEW name" in text
    assert "MATERIALIZED" not in _help("CREATE VIEW").partition("Syntax")[2]


def test_a_statement_of_connectors_names_their_kinds_and_options() -> None:
    whole = _help("CREATE CONNECTION")
    for name, kind in _REGISTRY.connections.items():
        described = whole.partition(f"\n  {name}\n")[2]
        for option in offered(kind.options):
            assert f"\n    {option.label} " in f"\n{described}", (name, option.label)
    one = _help("create connection iceberg catalog")
    assert "CATALOG TYPE" in one
    assert "ACCESS KEY ID" not in one
    assert "in WITH (…)\n      COMMIT INTERVAL " in _help("CREATE SINK")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("SQ2204", "# SQ2204: "),
        ("date_trunc", "`date_trunc(unit text, timestamp) → timestamp`"),
        ("small files", "See"),
    ],
)
def test_other_words_show_the_documentation(words: str, shown: str) -> None:
    answer = Documentation().find(words)
    text = _help(words)
    assert shown in text
    assert document.markdown_of(answer) in text
    assert all(line in text.splitlines() for line in document.further_pages(answer))


def test_a_misspelled_statement_is_not_looked_up_in_the_documentation() -> None:
    with pytest.raises(SinkqlError) as raised:
        _help("crate sink")
    assert raised.value.hint == "Did you mean \\h CREATE SINK?"


def test_a_terminal_shows_a_page_without_marks_of_markdown() -> None:
    text = help_on_statement("SQ2204", _REGISTRY, terminal=True)
    assert "SQ2204: column" in text
    assert "# SQ2204" not in text
