"""The words that the grammar allows at the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.parser.assist.completion import OptionPlace, QueriedRelation, candidates
from sinkql.parser.assist.highlight import highlights
from sinkql.session import Session
from sinkql.shell.command.help import topics
from sinkql.shell.editor import candidates as editor_candidates
from support.keywords import WORDS

_SINK = "CREATE SINK s FROM daily INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') "


def _at_end(text: str) -> set[str]:
    return set(candidates(text, len(text), WORDS).keywords)


@pytest.mark.parametrize("example", [each.example for each in topics()])
def test_each_keyword_that_stands_there_is_one_that_may(example: str) -> None:
    query = example.find("SELECT") if "SELECT" in example else len(example)
    for part in highlights(example, WORDS):
        if part.kind == "keyword" and part.span.start <= query:
            word = example[part.span.start : part.span.end].upper()
            found = candidates(example, part.span.start, WORDS)
            offered = " ".join(found.keywords)
            assert word in offered or found.kinds_of is not None, f"{example[: part.span.start]} … {word}: {found}"


@pytest.mark.parametrize("start", ["", "DROP ", "SHOW ", "EXPLAIN ", "CREATE ", "CREATE SINK s FROM o ", _SINK])
def test_each_keyword_that_may_stand_there_is_taken(start: str) -> None:
    for keywords in _at_end(start) - {"SELECT", "VALUES", "WITH"}:  # the parser reads the queries after these later
        # the text is complete up to the keywords, so the error comes after them
        text = f"{start}{keywords} ?"
        with pytest.raises(SinkqlError) as raised:
            parse(text)
        assert raised.value.span is not None
        assert raised.value.span.start >= len(text) - 1, keywords


def test_keywords_that_must_follow_come_with_the_first() -> None:
    assert _at_end("CREATE SINK s ") == {"FROM", "IN CLUSTER"}
    assert "IF EXISTS" in _at_end("DROP SINK ")
    assert {"PARTITION BY", "SORT BY"} <= _at_end(_SINK)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("CREATE SINK s FROM ", ("EXPORTED",)),
        ("CREATE SINK s IN CLUSTER ", ("CLUSTER",)),
        (f"{_SINK}KEY (a, ", ("COLUMN",)),
        (f"{_SINK}PARTITION BY (", ("COLUMN",)),
        (f"{_SINK}PARTITION BY (day(a), ", ("COLUMN",)),
        (f"{_SINK}PARTITION BY (a, day(", ("COLUMN",)),
        (f"{_SINK}PARTITION BY (bucket(4, ", ("COLUMN",)),
        (f"{_SINK}SORT BY (a DESC, ", ("COLUMN",)),
        (f"{_SINK}SORT BY (a ", ()),
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
    assert candidates(text, len(text), WORDS).kinds == kinds


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("CREATE SINK s FROM o INTO ICEBERG CATALOG CONNECTION ", "ICEBERG CATALOG"),
        (_SINK + "USING AWS CONNECTION ", "AWS"),
        ("CREATE SOURCE s FROM FILES CONNECTION ", None),
    ],
)
def test_connections_are_of_the_type_that_stands_before(text: str, type_: str | None) -> None:
    found = candidates(text, len(text), WORDS)
    assert (found.kinds, found.connection) == (("CONNECTION",), type_)


def test_a_sinks_key_is_made_of_columns_of_its_relation() -> None:
    found = candidates(_SINK + "KEY (a, ", len(_SINK) + 8, WORDS)
    assert (found.kinds, found.relations) == (("COLUMN",), (QueriedRelation("daily"),))


def test_options_are_those_of_the_bracket_without_those_given() -> None:
    text = _SINK + "MODE UPSERT WITH (SNAPSHOT = false, COMMIT IN"
    found = candidates(text, len(text), WORDS)
    assert found.options is not None
    assert found.options.behind_with
    assert found.options.written == ("SNAPSHOT",)
    assert text[found.start :] == "COMMIT IN"


def test_a_value_is_that_of_its_option_also_inside_its_quote() -> None:
    options = OptionPlace("CONNECTION", "ICEBERG CATALOG", written=("CATALOG TYPE",))
    for typed in ("CATALOG TYPE = ", "CATALOG TYPE ", "CATALOG TYPE = 're"):
        text = f"CREATE CONNECTION c TO ICEBERG CATALOG ({typed}"
        assert candidates(text, len(text), WORDS).value_of == (options, "CATALOG TYPE")


def test_columns_are_of_the_relations_that_the_query_reads_also_behind_the_cursor() -> None:
    text = "SELECT  FROM orders AS o JOIN public.users u ON true; SELECT 1 FROM other"
    found = candidates(text, 7, WORDS)
    assert found.relations == (QueriedRelation("orders", "o"), QueriedRelation("public.users", "u"))
    text = "SELECT * FROM orders o WHERE o."
    assert candidates(text, len(text), WORDS).qualifier == "o"


@pytest.mark.parametrize("text", ["SELECT 'a ", "-- ", "/* ", "SELECT 1 -- x ", "NO SUCH THING ", "DROP SINK a b "])
def test_nothing_is_offered_in_strings_and_comments_and_behind_mistakes(text: str) -> None:
    found = candidates(text, len(text), WORDS)
    assert (found.keywords, found.kinds, found.options) == ((), (), None)


@pytest.mark.parametrize("example", [each.example for each in topics()])
def test_candidates_and_marks_come_at_every_place_of_a_text(example: str) -> None:
    for cursor in range(len(example) + 1):
        candidates(example, cursor, WORDS)
        ends = [part.span.end for part in highlights(example[:cursor], WORDS)]
        assert ends == sorted(ends)
        assert all(end <= cursor for end in ends)


def test_marks_know_a_keyword_from_a_name_of_the_same_spelling() -> None:
    text = "CREATE SINK key FROM mode INTO ICEBERG CATALOG CONNECTION lake (TABLE = 'x') KEY (key) -- KEY"
    found = [(text[part.span.start : part.span.end], part.kind) for part in highlights(text, WORDS)]
    assert [kind for word, kind in found if word.lower() == "key"] == ["name", "keyword", "name"]
    assert ("mode", "name") in found
    assert ("TABLE", "option") in found
    assert found[-1] == ("-- KEY", "comment")


def test_what_cannot_be_used_yet_is_not_offered(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        lake = OptionPlace("CONNECTION", "ICEBERG CATALOG")
        providers = [text for text, _ in editor_candidates.values(lake, "STORAGE PROVIDER", session, "'")]
        types = [text for text, _ in editor_candidates.values(lake, "CATALOG TYPE", session, "'")]
    assert providers == ["'s3'", "'gcs'"]
    assert types == ["'glue'", "'hive'", "'memory'", "'rest'", "'s3tablesrest'", "'sql'"]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("FORMAT CSV WITH HEADER (", {"QUOTE", "NULL AS", "COMMENT"}),
        ("FORMAT CSV WITH HEADER (a) (QUOTE = '^', ", {"ESCAPE"}),
        ("FORMAT CSV WITH HEADER WITH (", {"ON ERROR"}),
    ],
)
def test_options_of_a_format_are_its_own(session: Session, text: str, offered: set[str]) -> None:
    start = f"CREATE SOURCE s FROM FILES (PATH = 'x') {text}"
    place = candidates(start, len(start), session.catalog.registry.keywords).options
    assert place is not None
    found = {label.removesuffix(" = ") for label, _ in editor_candidates.labels(place, session)}
    assert offered <= found
    assert not found & {"PATH", "GLOB"}
