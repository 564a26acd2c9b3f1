"""What the grammar lets stand at the cursor."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.parser.candidate import Options, Relation, candidates
from sinkql.parser.mark import marks
from sinkql.shell.help import statements

_SINK = "CREATE SINK s FROM daily INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') "


def _at_end(text: str) -> set[str]:
    return set(candidates(text, len(text)).keywords)


@pytest.mark.parametrize("example", [each.example for each in statements()])
def test_each_keyword_that_stands_there_is_one_that_may(example: str) -> None:
    query = example.find("SELECT") if "SELECT" in example else len(example)
    for mark in marks(example):
        if mark.kind == "keyword" and mark.span.start <= query:
            word = example[mark.span.start : mark.span.end].upper()
            found = candidates(example, mark.span.start)
            offered = " ".join([*found.keywords, "CONNECTION" if found.connection_types else ""])
            assert word in offered or found.connection_types, f"{example[: mark.span.start]} … {word}: {found}"


@pytest.mark.parametrize("start", ["", "DROP ", "SHOW ", "EXPLAIN ", "CREATE ", "CREATE SINK s FROM o ", _SINK])
def test_each_keyword_that_may_stand_there_is_taken(start: str) -> None:
    for keywords in _at_end(start) - {"SELECT", "VALUES", "WITH"}:  # what follows these is read later
        # nothing else is missing up to there: the error is behind the keywords
        text = f"{start}{keywords} ?"
        with pytest.raises(SinkqlError) as raised:
            parse(text)
        assert raised.value.span is not None
        assert raised.value.span.start >= len(text) - 1, keywords


def test_keywords_that_must_follow_come_with_the_first() -> None:
    assert _at_end("CREATE SINK s ") == {"FROM", "IN CLUSTER"}
    assert "IF EXISTS" in _at_end("DROP SINK ")
    assert "PARTITION BY" in _at_end(_SINK)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("CREATE SINK s FROM ", ("EXPORTED",)),
        ("CREATE SINK s IN CLUSTER ", ("CLUSTER",)),
        ("DROP SINK IF EXISTS a, ", ("SINK",)),
        ("DROP MATERIALIZED VIEW ", ("MATERIALIZED VIEW",)),
        ("SHOW CREATE SOURCE ", ("SOURCE",)),
        ("SHOW SINKS FROM ", ("SCHEMA",)),
        ("ALTER SYSTEM SET ", ("SETTING",)),
        ("CREATE SOURCE s (id ", ("DATA TYPE",)),
        ("CREATE SOURCE s (id bigint, at ", ("DATA TYPE",)),
        ("SELECT a FROM ", ("RELATION",)),
        ("SELECT a FROM x JOIN ", ("RELATION",)),
        ("SELECT a FROM x, ", ("RELATION",)),
        ("SELECT ", ("COLUMN", "FUNCTION")),
        ("SELECT a FROM x WHERE ", ("COLUMN", "FUNCTION")),
        ("SELECT a FROM (SELECT b FROM ", ("RELATION",)),
        ("CREATE VIEW v AS SELECT a FROM ", ("RELATION",)),
        ("CREATE SINK ", ()),
        ("CREATE VIEW ", ()),
        ("SELECT a FROM x ", ()),
    ],
)
def test_names_are_of_the_kind_that_may_stand_there(text: str, kinds: tuple[str, ...]) -> None:
    assert candidates(text, len(text)).kinds == kinds


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("CREATE SINK s FROM o INTO ICEBERG CATALOG CONNECTION ", "ICEBERG CATALOG"),
        (_SINK + "USING AWS CONNECTION ", "AWS"),
        ("CREATE SOURCE s FROM FILES CONNECTION ", None),
    ],
)
def test_connections_are_of_the_type_that_stands_before(text: str, type_: str | None) -> None:
    found = candidates(text, len(text))
    assert (found.kinds, found.connection) == (("CONNECTION",), type_)


def test_a_sinks_key_is_made_of_columns_of_its_relation() -> None:
    found = candidates(_SINK + "KEY (a, ", len(_SINK) + 8)
    assert (found.kinds, found.relations) == (("COLUMN",), (Relation("daily"),))


def test_options_are_those_of_the_bracket_without_those_given() -> None:
    text = _SINK + "MODE UPSERT WITH (SNAPSHOT = false, COMMIT IN"
    found = candidates(text, len(text))
    assert found.options is not None
    assert found.options.shape.endswith("WITH (")
    assert found.options.taken == ("SNAPSHOT",)
    assert text[found.start :] == "COMMIT IN"


def test_a_value_is_that_of_its_option_also_inside_its_quote() -> None:
    options = Options("CREATE CONNECTION ? TO ICEBERG CATALOG (", ("CATALOG TYPE",))
    for typed in ("CATALOG TYPE = ", "CATALOG TYPE ", "CATALOG TYPE = 're"):
        text = f"CREATE CONNECTION c TO ICEBERG CATALOG ({typed}"
        assert candidates(text, len(text)).value_of == (options, "CATALOG TYPE")


def test_columns_are_of_the_relations_that_the_query_reads_also_behind_the_cursor() -> None:
    text = "SELECT  FROM orders AS o JOIN public.users u ON true; SELECT 1 FROM other"
    found = candidates(text, 7)
    assert found.relations == (Relation("orders", "o"), Relation("public.users", "u"))
    text = "SELECT * FROM orders o WHERE o."
    assert candidates(text, len(text)).qualifier == "o"


@pytest.mark.parametrize("text", ["SELECT 'a ", "-- ", "/* ", "SELECT 1 -- x ", "NO SUCH THING ", "DROP SINK a b "])
def test_nothing_is_offered_in_strings_and_comments_and_behind_mistakes(text: str) -> None:
    found = candidates(text, len(text))
    assert (found.keywords, found.kinds, found.options) == ((), (), None)


@pytest.mark.parametrize("example", [each.example for each in statements()])
def test_candidates_and_marks_come_at_every_place_of_a_text(example: str) -> None:
    for cursor in range(len(example) + 1):
        candidates(example, cursor)
        ends = [mark.span.end for mark in marks(example[:cursor])]
        assert ends == sorted(ends)
        assert all(end <= cursor for end in ends)


def test_marks_know_a_keyword_from_a_name_of_the_same_spelling() -> None:
    text = "CREATE SINK key FROM mode INTO ICEBERG CATALOG CONNECTION lake (TABLE = 'x') KEY (key) -- KEY"
    found = [(text[mark.span.start : mark.span.end], mark.kind) for mark in marks(text)]
    assert [kind for word, kind in found if word.lower() == "key"] == ["name", "keyword", "name"]
    assert ("mode", "name") in found
    assert ("TABLE", "option") in found
    assert found[-1] == ("-- KEY", "comment")
