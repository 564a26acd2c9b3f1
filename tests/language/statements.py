"""Strategies for all statements that the printer accepts, and for any text as input of the parser."""

from __future__ import annotations

from hypothesis import strategies as st

from language.creates import (
    create_clusters,
    create_connections,
    create_secrets,
    created_subsources,
    sinks,
    sources,
    tables_from_sources,
    tables_from_webhooks,
    views,
    webhooks,
)
from language.tables import create_indexes, create_tables, schema_names
from language.values import WORDS, assigned, idents, names, queries, texts, truths
from sinkql import ast

_KINDS = st.sampled_from(["SECRET", "CONNECTION", "CLUSTER", "SOURCE", "VIEW", "MATERIALIZED VIEW", "SINK"])
shows = st.one_of(
    st.builds(
        ast.Show,
        _KINDS.map(lambda kind: kind + "S"),
        st.one_of(st.none(), names),
        st.one_of(st.none(), idents),
        like=st.one_of(st.none(), texts),
    ),
    st.builds(ast.Show, st.just("SINKS"), where=st.just(ast.Query("name = ';' AND (x)"))),
)
explains = st.builds(
    ast.Explain,
    st.one_of(
        queries,
        sinks(),
        views(),
        st.builds(ast.ItemRef, st.sampled_from(["SINK", "SOURCE", "VIEW", "MATERIALIZED VIEW"]), names),
    ),
    st.sampled_from(["RAW", "OPTIMIZED", "PHYSICAL", "SPARK SQL"]),
    st.sampled_from(["TEXT", "JSON"]),
)
statements = st.one_of(
    create_secrets,
    create_connections,
    create_clusters,
    sources(),
    webhooks,
    views(),
    sinks(),
    tables_from_webhooks,
    tables_from_sources(),
    created_subsources,
    create_tables,
    create_indexes,
    st.builds(ast.CreateSchema, schema_names, truths),
    st.builds(ast.CreateDatabase, idents, truths),
    st.builds(ast.Drop, _KINDS, st.lists(names, min_size=1, max_size=2).map(tuple), truths, truths),
    shows,
    st.builds(ast.ShowCreate, _KINDS, names, truths),
    st.builds(ast.ShowVariable, st.one_of(st.none(), idents)),
    st.builds(ast.AlterSystem, idents, assigned),
    st.builds(ast.SetVariable, idents, assigned, st.sampled_from([None, "SESSION", "LOCAL"])),
    explains,
    st.builds(ast.Select, queries),
)

_SCRAPS = [
    *WORDS,
    *"()[]{},;.:=|-*'\"$",
    "=>",
    "||",
    "--",
    "/*",
    "*/",
    "$$",
    "E'",
    "X'",
    "\\u12",
    "1",
    "a",
    "ſ",
    "İ",
    "\n",
]
soups = st.lists(st.one_of(st.sampled_from(_SCRAPS), st.text(max_size=2)), max_size=30).map(" ".join)
