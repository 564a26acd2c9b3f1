"""Strategies for the names, values, options and expressions that the printer accepts."""

from __future__ import annotations

from hypothesis import strategies as st

from sinkql import ast, keywords
from sinkql.parser.read import automaton
from support.keywords import WORDS as VOCABULARY

OPTION_LABELS = VOCABULARY.labels
WORDS = sorted(automaton.keywords() | keywords.QUOTED | keywords.SHOWN)
_CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
TEXT = st.text(_CHARACTERS, max_size=8)
_PLAIN = st.sampled_from(["a", "orders", "_x$1", "größe", "x2"])
_NAMES = st.one_of(
    _PLAIN,
    st.sampled_from(WORDS).map(str.lower),
    st.sampled_from(WORDS),
    st.text(_CHARACTERS, min_size=1, max_size=5).filter(lambda name: name not in (".", "..")),
)
_QUERIES = st.sampled_from(
    [
        "SELECT 1",
        "SELECT a, ';' AS b\nFROM t -- why;\nWHERE c = $$;$$",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "VALUES (1, 'x'), (2, E'\\'')",
        '(SELECT 1) UNION ALL SELECT /* ; /* ; */ */ "s;" FROM u',
        "TABLE t",
    ]
)
TYPES = ["bigint", "numeric(10,2)", "timestamp(6) with time zone", "double precision", "text[]", "text list"]

idents = st.builds(ast.Ident, _NAMES)
names = st.lists(idents, min_size=1, max_size=3).map(lambda parts: ast.Name(tuple(parts)))
ident_tuples = st.lists(idents, min_size=1, max_size=3).map(tuple)
texts = st.builds(ast.Text, TEXT)
queries = st.builds(ast.Query, _QUERIES)
expressions = st.builds(
    ast.Expression,
    st.sampled_from(
        [
            "1",
            "a || ',' || b(c, d)",
            "CASE WHEN a THEN b ELSE c END",
            "(a)",
            "x IS NOT NULL",
            "a IS DISTINCT FROM b",
            "now()::timestamp with time zone",
            "d AT TIME ZONE 'utc'",
            "sum(x) FILTER (WHERE y)",
            "INTERVAL '1' DAY TO SECOND",
            "a NOT IN (1, 2)",
            "NULL",
        ]
    ),
)
numbers = st.builds(ast.Number, st.sampled_from(["0", "-1", "1.5", ".5", "1.", "1E3", "-1E-3"]))
secrets = st.builds(ast.SecretRef, names)
hexes = st.builds(ast.Hex, st.sampled_from(["", "0aF"]))
scalars = st.one_of(
    numbers, st.builds(ast.Boolean, st.booleans()), st.just(ast.Null()), st.builds(ast.Interval, TEXT), hexes
)
concats = st.lists(st.one_of(texts, secrets), min_size=2, max_size=3).map(lambda parts: ast.Concat(tuple(parts)))
bare = st.builds(ast.Word, names)
simple_options = st.lists(
    st.builds(ast.Option, st.sampled_from(["PORT", "SIZE", "NOT KNOWN"]), st.one_of(texts, numbers, bare)),
    min_size=1,
    max_size=2,
).map(tuple)
no_options = st.one_of(st.just(()), simple_options)
through = st.one_of(
    st.builds(ast.Phrase, st.just("USING SSH TUNNEL"), bare),
    st.builds(ast.Phrase, st.just("USING AWS PRIVATELINK"), bare, no_options),
)
aligned = st.builds(ast.Phrase, st.just("ALIGNED TO"), expressions)
phrases = st.one_of(
    st.builds(ast.Phrase, st.just("FOR"), st.one_of(scalars, texts)),
    st.sampled_from([ast.Phrase("ON COMMIT"), ast.Phrase("AT CREATION")]),
    st.builds(ast.Phrase, st.just("AT"), expressions),
    st.builds(ast.Phrase, st.just("EVERY"), st.builds(ast.Interval, TEXT), then=st.one_of(st.none(), aligned)),
    st.builds(ast.Phrase, st.just("ON REFRESH"), st.none(), no_options),
    st.builds(ast.Phrase, st.just("ON HYDRATION"), st.none(), simple_options),
    st.builds(ast.Phrase, st.sampled_from(["", "MATCHING"]), texts, then=through),
    st.builds(ast.Phrase, st.just(""), bare, simple_options),
)
values = st.recursive(
    st.one_of(scalars, texts, secrets, concats, bare, phrases),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: ast.Sequence(tuple(items))),
        st.lists(st.builds(ast.MapEntry, TEXT, inner), max_size=3).map(lambda entries: ast.Map(tuple(entries))),
    ),
    max_leaves=4,
)
settings = st.one_of(scalars, texts, st.builds(ast.Word, names))
assigned = st.one_of(
    st.none(),
    settings,
    st.lists(settings, min_size=2, max_size=3).map(lambda items: ast.Sequence(tuple(items))),
)


def _label(label: str) -> st.SearchStrategy[ast.Option]:
    lowered = values.filter(lambda value: label != "CATALOG TYPE" or not isinstance(value, ast.Text))
    # the last word of an unknown name without a value is its value
    may_stand_alone = label in OPTION_LABELS or " " not in label
    return st.builds(ast.Option, st.just(label), st.one_of(st.none(), lowered) if may_stand_alone else lowered)


options = st.sampled_from([*sorted(OPTION_LABELS), "UNKNOWN", "NOT KNOWN", "GROUP"]).flatmap(_label)
some_options = st.lists(options, min_size=1, max_size=3).map(tuple)
any_options = st.lists(options, max_size=3).map(tuple)
truths = st.booleans()
