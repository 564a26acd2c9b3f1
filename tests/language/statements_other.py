"""Strategies for all statements, including the ones that create nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from language.creates import secret_calls, sinks
from language.statements import statements as some_statements
from language.tables import create_indexes, create_tables, table_columns
from language.values import (
    any_options,
    assigned,
    expressions,
    ident_tuples,
    idents,
    names,
    queries,
    some_options,
    texts,
    truths,
    values,
)
from sinkql import ast
from support.keywords import WORDS

_perhaps_ident = st.one_of(st.none(), idents)
_perhaps_expression = st.one_of(st.none(), expressions)
_several_names = st.lists(names, min_size=1, max_size=2).map(tuple)
_conditions = st.builds(ast.Expression, st.sampled_from(["a", "b = ';' OR (c)", "x IN (SELECT 1 WHERE true)"]))
_perhaps_condition = st.one_of(st.none(), _conditions)

_option_names = st.builds(ast.OptionName, st.sampled_from([*sorted(WORDS.labels), "NOT KNOWN", "GROUP"]))
_resets = st.builds(ast.ResetOptions, st.lists(_option_names, min_size=1, max_size=3).map(tuple))
_sets = st.builds(ast.SetOptions, some_options)
_waits = st.one_of(
    values.map(lambda value: (ast.Option("WAIT FOR", value),)),
    some_options.map(lambda given: (ast.Option("WAIT UNTIL READY", None), *given)),
)
_references = st.builds(ast.Reference, names, st.one_of(st.none(), names))
_renames = st.builds(ast.Rename, idents)
_owners = st.builds(ast.SetOwner, idents)
_swaps = st.builds(ast.Swap, idents)
_clusters = st.builds(ast.SetCluster, idents)
_common = st.one_of(_renames, _owners, _sets, _resets)
_actions = {
    "SECRET": st.one_of(_renames, _owners, st.builds(ast.SetSecret, st.one_of(texts, secret_calls))),
    "CONNECTION": st.one_of(
        _renames,
        _owners,
        st.builds(
            ast.ChangeConnection,
            st.lists(st.one_of(_sets, _resets, st.just(ast.RotateKeys())), min_size=1, max_size=3).map(tuple),
            st.sampled_from([None, True, False]),
        ),
    ),
    "CLUSTER": st.one_of(_common, _swaps, st.builds(ast.SetOptions, some_options, _waits)),
    "SOURCE": st.one_of(
        _common,
        _clusters,
        st.builds(ast.AddReferences, st.lists(_references, min_size=1, max_size=2).map(tuple), any_options),
        st.builds(ast.DropReferences, _several_names, truths, truths),
        st.sampled_from([ast.RefreshReferences(), ast.Skip()]),
    ),
    "TABLE": st.one_of(_common, st.builds(ast.AddColumn, table_columns, truths)),
    "VIEW": _common,
    "MATERIALIZED VIEW": st.one_of(_common, _clusters, st.builds(ast.ApplyReplacement, names)),
    "INDEX": _common,
    "SINK": st.one_of(_common, _clusters, st.builds(ast.SetFrom, names), st.just(ast.Publish())),
    "SCHEMA": st.one_of(_renames, _owners, _swaps),
    "DATABASE": st.one_of(_renames, _owners),
}
_alters = st.sampled_from(sorted(_actions)).flatmap(
    lambda kind: st.builds(ast.Alter, st.just(kind), names, _actions[kind], truths)
)

_MODES = [
    "READ ONLY",
    "READ WRITE",
    "ISOLATION LEVEL READ COMMITTED",
    "ISOLATION LEVEL REPEATABLE READ",
    "ISOLATION LEVEL STRONG SESSION SERIALIZABLE",
]
_modes = st.lists(st.sampled_from(_MODES), max_size=3).map(tuple)
_transactions = st.one_of(
    st.builds(ast.Transaction, st.just("BEGIN"), _modes),
    st.builds(ast.Transaction, st.just("SET"), _modes.filter(bool)),
    st.builds(ast.Transaction, st.sampled_from(["COMMIT", "ROLLBACK"]), chain=truths),
)

_column_names = st.lists(idents, min_size=1, max_size=4).map(lambda parts: ast.Name(tuple(parts)))
_perhaps_text = st.one_of(st.none(), texts)
_comments = st.one_of(
    st.builds(
        ast.CommentOn,
        st.sampled_from(["TABLE", "CLUSTER", "CLUSTER REPLICA", "MATERIALIZED VIEW", "SECRET", "NETWORK POLICY"]),
        names,
        _perhaps_text,
    ),
    st.builds(ast.CommentOn, st.just("COLUMN"), _column_names, _perhaps_text),
)

_inserts = st.builds(
    ast.Insert,
    names,
    st.one_of(st.none(), queries),
    st.one_of(st.just(()), ident_tuples),
    st.one_of(st.none(), st.builds(ast.Expression, st.sampled_from(["a", "a AS b, upper(c)", "*"]))),
)
_updates = st.builds(
    ast.Update,
    names,
    st.lists(st.builds(ast.Assignment, idents, expressions), min_size=1, max_size=3).map(tuple),
    _perhaps_ident,
    _perhaps_condition,
)
_deletes = st.builds(
    ast.Delete,
    names,
    _perhaps_ident,
    st.one_of(st.none(), st.builds(ast.Expression, st.sampled_from(["u", "u, (SELECT 1 WHERE x) AS w"]))),
    _perhaps_condition,
)

_outputs = st.sampled_from(
    ["ENVELOPE UPSERT (KEY (a))", 'ENVELOPE DEBEZIUM (KEY ("A", b))', "WITHIN TIMESTAMP ORDER BY a DESC, b"]
).map(ast.Expression)


@st.composite
def _subscribes(draw: st.DrawFn) -> ast.Subscribe:
    as_of = draw(_perhaps_expression)
    return ast.Subscribe(
        relation=draw(st.one_of(names, queries)),
        output=draw(st.one_of(st.none(), _outputs)),
        options=draw(any_options),
        as_of=as_of,
        at_least=as_of is not None and draw(truths),
        up_to=draw(_perhaps_expression),
    )


_STAGES = ["DECORRELATED", "LOCALLY OPTIMIZED", "OPTIMIZER TRACE", "INSIGHTS", "TIMESTAMP", "KEY SCHEMA", "PHYSICAL"]
_KINDS = ["SINK", "SOURCE", "VIEW", "MATERIALIZED VIEW", "INDEX"]
_flag_values = st.one_of(st.none(), st.just(ast.Number("1")), st.builds(ast.Boolean, truths), texts)
_flags = st.builds(ast.Option, st.sampled_from(["ARITY", "JOIN IMPLEMENTATIONS", "SELECT"]), _flag_values)
_explains = st.one_of(
    st.builds(
        ast.Explain,
        st.one_of(
            queries,
            sinks(),
            create_indexes,
            _subscribes(),
            st.builds(ast.ItemRef, st.sampled_from(_KINDS), names, truths),
        ),
        st.sampled_from(_STAGES),
        st.sampled_from(["TEXT", "VERBOSE TEXT", "JSON", "DOT"]),
        st.lists(_flags, max_size=2).map(tuple),
    ),
    st.builds(
        ast.Explain,
        st.builds(ast.ItemRef, st.sampled_from(["INDEX", "MATERIALIZED VIEW"]), names),
        st.sampled_from(["ANALYZE HINTS", "ANALYZE CPU", "ANALYZE MEMORY, CPU WITH SKEW"]),
        st.sampled_from(["TEXT", "SQL"]),
    ),
    st.builds(ast.Explain, st.none(), st.just("ANALYZE CLUSTER CPU, MEMORY"), st.sampled_from(["TEXT", "SQL"])),
)

_ON = st.sampled_from(["TABLES", "SUBSOURCES", "INDEXES"])
_shows = st.one_of(
    st.builds(ast.Show, _ON, st.one_of(st.none(), names), _perhaps_ident, _perhaps_text, relation=names),
    st.builds(ast.Show, st.just("COLUMNS"), like=_perhaps_text, relation=names),
    st.builds(ast.Show, st.sampled_from(["OBJECTS", "SCHEMAS", "DATABASES", "CLUSTER REPLICAS"]), like=_perhaps_text),
)
_DROPPED = ["TABLE", "INDEX", "SCHEMA", "DATABASE", "CLUSTER REPLICA", "TYPE", "ROLE"]


def _many(sink: ast.CreateSink, tables: tuple[ast.Name, ...]) -> ast.CreateSinks:
    relation = tables[0] if tables else sink.relation
    plain = replace(sink, name=None, key=None, partition_by=(), sort_by=(), headers=None, format=None, key_format=None)
    return ast.CreateSinks(replace(plain, relation=relation), tables)


_many_sinks = st.builds(_many, sinks(), st.lists(names, max_size=3).map(tuple))

statements = st.one_of(
    some_statements,
    create_tables,
    _alters,
    st.builds(ast.Drop, st.sampled_from(_DROPPED), _several_names, truths, truths),
    _shows,
    st.builds(ast.ShowCreate, st.sampled_from(["TABLE", "INDEX", "SCHEMA"]), names, truths),
    st.builds(ast.AlterSystem, st.none(), st.none()),
    st.builds(ast.SetVariable, st.sampled_from(["search_path", "schema", "time", "to"]).map(ast.Ident), assigned),
    _transactions,
    _comments,
    st.builds(ast.ValidateConnection, names),
    st.builds(ast.OptimizeSink, names),
    _many_sinks,
    st.builds(ast.ReplayErrors, names),
    _inserts,
    _updates,
    _deletes,
    _subscribes(),
    _explains,
)
