"""CREATE statements that the printer may be given."""

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
from sinkql import ast, words

transforms = st.one_of(
    st.builds(ast.Transform, st.just("identity"), idents),
    st.builds(ast.Transform, st.sampled_from(["year", "month", "day", "hour"]), idents),
    st.builds(ast.Transform, st.sampled_from(["bucket", "truncate"]), idents, st.integers(1, 99)),
)
modes = st.sampled_from([ast.Mode("upsert"), ast.Mode("append"), ast.Mode("append", changelog=False)])

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
    st.sampled_from(sorted(words.CONNECTION_KINDS | {"ELSEWHERE"})),
    some_options,
    st.one_of(st.none(), truths),
    truths,
)
create_clusters = st.builds(ast.CreateCluster, idents, some_options, truths, st.one_of(st.just(()), some_options))


@st.composite
def sources(draw: st.DrawFn) -> ast.CreateSource:
    kind = draw(st.sampled_from(["FILES", "LOAD GENERATOR", "KAFKA", "POSTGRES", "MYSQL", "SQL SERVER"]))
    with_columns = draw(truths)
    key_format, value_format = draw(two_formats)
    envelope, inline_errors = draw(envelopes)
    return ast.CreateSource(
        name=draw(names),
        kind=kind,
        options=draw(some_options if kind == "FILES" else any_options),
        columns=tuple(draw(st.lists(columns, min_size=1, max_size=3))) if with_columns else (),
        primary_key=draw(st.one_of(st.just(()), ident_tuples)) if with_columns else (),
        cluster=draw(maybe_ident),
        connection=draw(
            st.none() if kind == "LOAD GENERATOR" else st.one_of(st.none(), names) if kind == "FILES" else names
        ),
        generator=draw(st.sampled_from(["COUNTER", "KEY VALUE"])) if kind == "LOAD GENERATOR" else None,
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
    st.just("WEBHOOK"),
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
    if_not_exists=truths,
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


create_sinks = st.builds(
    ast.CreateSink,
    relation=names,
    kind=st.just("ICEBERG CATALOG"),
    connection=names,
    name=st.one_of(st.none(), names),
    options=any_options,
    cluster=st.one_of(st.none(), idents),
    aws_connection=st.one_of(st.none(), names),
    format=st.sampled_from([None, "PARQUET"]),
    key=st.one_of(st.none(), st.builds(ast.Key, ident_tuples, truths)),
    mode=st.one_of(st.none(), modes),
    partition_by=st.lists(transforms, max_size=2).map(tuple),
    with_options=any_options,
    if_not_exists=truths,
)
partitions = st.builds(ast.Option, st.just("PARTITION BY"), expressions)


@st.composite
def kafka_sinks(draw: st.DrawFn) -> ast.CreateSink:
    key_format, value_format = draw(two_formats)
    named = options.filter(lambda option: option.name != "PARTITION BY")
    return ast.CreateSink(
        relation=draw(names),
        kind="KAFKA",
        connection=draw(names),
        name=draw(st.one_of(st.none(), names)),
        options=tuple(draw(st.lists(st.one_of(named, partitions), max_size=3))),
        cluster=draw(maybe_ident),
        key=draw(st.one_of(st.none(), st.builds(ast.Key, ident_tuples, truths))),
        headers=draw(maybe_ident),
        key_format=key_format,
        value_format=value_format,
        envelope=draw(st.sampled_from([None, "UPSERT", "DEBEZIUM"])),
        with_options=draw(any_options),
        if_not_exists=draw(truths),
    )
