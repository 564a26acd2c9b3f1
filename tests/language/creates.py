"""Strategies for the CREATE statements that the printer accepts."""

from __future__ import annotations

from hypothesis import strategies as st

from language.formats import checks, envelopes, headers, includes, maybe_ident, subsources, two_formats
from language.tables import columns, table_columns, table_constraints
from language.values import (
    any_options,
    expressions,
    ident_tuples,
    idents,
    names,
    options,
    queries,
    some_options,
    texts,
    truths,
)
from sinkql import ast
from support.keywords import WORDS

transforms = st.one_of(
    st.builds(ast.Transform, st.just("identity"), idents),
    st.builds(ast.Transform, st.sampled_from(["year", "month", "day", "hour"]), idents),
    st.builds(ast.Transform, st.sampled_from(["bucket", "truncate"]), idents, st.integers(1, 99)),
)
modes = st.sampled_from(
    [ast.Mode("upsert"), ast.Mode("append"), ast.Mode("append", changelog=False), ast.Mode("debezium")]
)

secret_calls = st.one_of(
    st.builds(ast.Call, st.sampled_from(["env_var", "file", "aws_secret"]), texts.map(lambda text: (text,))),
    st.builds(ast.Call, st.sampled_from(["keyring", "vault", "aws_secret", "decode"]), st.tuples(texts, texts)),
)
create_secrets = st.builds(
    ast.CreateSecret,
    names,
    st.one_of(
        texts,
        st.lists(st.one_of(texts, secret_calls), min_size=2, max_size=3).map(lambda parts: ast.Joined(tuple(parts))),
        secret_calls,
    ),
    truths,
)
create_connections = st.builds(
    ast.CreateConnection,
    names,
    st.sampled_from(sorted({*WORDS.kinds["CONNECTION"], "ELSEWHERE", "NOT KNOWN"})),
    some_options,
    st.one_of(st.none(), truths),
    truths,
)
create_clusters = st.builds(ast.CreateCluster, idents, some_options, truths, st.one_of(st.just(()), some_options))


@st.composite
def sources(draw: st.DrawFn) -> ast.CreateSource:
    kind = draw(st.sampled_from(sorted({*WORDS.kinds["SOURCE"], "ELSEWHERE", "NOT KNOWN"})))
    with_columns = draw(truths)
    key_format, value_format = draw(two_formats)
    envelope, inline_errors = draw(envelopes)
    return ast.CreateSource(
        name=draw(names),
        kind=kind,
        options=draw(any_options),
        columns=tuple(draw(st.lists(columns, min_size=1, max_size=3))) if with_columns else (),
        primary_key=draw(st.one_of(st.just(()), ident_tuples)) if with_columns else (),
        cluster=draw(maybe_ident),
        connection=draw(st.one_of(st.none(), names)),
        format=value_format,
        key_format=key_format,
        include=tuple(draw(st.lists(includes, max_size=2))),
        envelope=envelope,
        inline_errors=inline_errors,
        subsources=draw(st.one_of(st.none(), subsources)),
        progress=draw(st.one_of(st.none(), names)),
        with_options=draw(any_options),
        if_not_exists=draw(truths),
    )


bodies = st.sampled_from([ast.Format("JSON"), ast.Format("JSON", array=True), ast.Format("TEXT"), ast.Format("BYTES")])
webhooks = st.builds(
    ast.CreateSource,
    names,
    st.sampled_from(["WEBHOOK", "NOT KNOWN"]),
    pushed=st.just(True),
    cluster=maybe_ident,
    format=bodies,
    include=st.lists(headers, max_size=2).map(tuple),
    check=st.one_of(st.none(), checks),
    if_not_exists=truths,
)
tables_from_webhooks = st.builds(
    ast.CreateTableFrom,
    names,
    st.none(),
    format=bodies,
    include=st.lists(headers, max_size=2).map(tuple),
    check=st.one_of(st.none(), checks),
    kind=st.just("WEBHOOK"),
    if_not_exists=truths,
)
created_subsources = st.builds(
    ast.CreateTableFrom, names, names, reference=names, subsource=st.just(True), if_not_exists=truths
)


@st.composite
def tables_from_sources(draw: st.DrawFn) -> ast.CreateTableFrom:
    key_format, value_format = draw(two_formats)
    envelope, inline_errors = draw(envelopes)
    typed = draw(truths)
    each = table_columns if typed else st.builds(ast.ColumnDef, idents)
    return ast.CreateTableFrom(
        draw(names),
        draw(names),
        reference=draw(st.one_of(st.none(), names)),
        columns=tuple(draw(st.lists(each, max_size=3))),
        constraints=tuple(draw(st.lists(table_constraints, max_size=1))) if typed else (),
        format=value_format,
        key_format=key_format,
        include=tuple(draw(st.lists(includes, max_size=2))),
        envelope=envelope,
        inline_errors=inline_errors,
        with_options=draw(any_options),
        if_not_exists=draw(truths),
    )


@st.composite
def views(draw: st.DrawFn) -> ast.CreateView:
    materialized = draw(truths)
    or_replace = draw(truths)
    replacement = materialized and draw(truths)
    return ast.CreateView(
        name=draw(names),
        query=draw(queries),
        materialized=materialized,
        columns=draw(st.one_of(st.just(()), ident_tuples)),
        cluster=draw(st.one_of(st.none(), idents)) if materialized else None,
        with_options=draw(any_options) if materialized else (),
        if_not_exists=not or_replace and draw(truths),
        or_replace=or_replace,
        temporary=not materialized and draw(truths),
        replacement=replacement,
        replaces=draw(st.one_of(st.none(), names)) if replacement else None,
        replica=draw(maybe_ident) if materialized else None,
    )


partitions = st.builds(ast.Option, st.just("PARTITION BY"), expressions)


@st.composite
def sinks(draw: st.DrawFn) -> ast.CreateSink:
    key_format, value_format = draw(two_formats)
    named = options.filter(lambda option: option.name != "PARTITION BY")
    return ast.CreateSink(
        relation=draw(names),
        kind=draw(st.sampled_from(sorted({*WORDS.kinds["SINK"], "ELSEWHERE", "NOT KNOWN"}))),
        connection=draw(names),
        name=draw(st.one_of(st.none(), names)),
        options=tuple(draw(st.lists(st.one_of(named, partitions), max_size=3))),
        cluster=draw(maybe_ident),
        using=draw(st.one_of(st.none(), st.builds(ast.Using, st.sampled_from(["AWS", "NOT KNOWN"]), names))),
        key=draw(st.one_of(st.none(), st.builds(ast.Key, ident_tuples, truths))),
        mode=draw(st.one_of(st.none(), modes)),
        partition_by=tuple(draw(st.lists(transforms, max_size=2))),
        sort_by=tuple(draw(st.lists(st.builds(ast.Sorting, idents, st.booleans(), st.booleans()), max_size=2))),
        headers=draw(maybe_ident),
        key_format=key_format,
        format=value_format,
        with_options=draw(any_options),
        if_not_exists=draw(truths),
    )
