"""Strategies for formats and other clauses that describe how a source is read."""

from __future__ import annotations

from hypothesis import strategies as st

from language.values import TEXT, any_options, expressions, ident_tuples, idents, names, options, texts, truths
from sinkql import ast

plain_formats = st.one_of(
    st.builds(ast.Format, st.just("JSON"), array=truths),
    st.builds(ast.Format, st.sampled_from(["PARQUET", "AVRO", "TEXT", "BYTES", "CSV"])),
    st.builds(
        ast.Format,
        st.just("CSV"),
        header=st.just(True),
        names=st.one_of(st.just(()), ident_tuples),
        delimiter=st.sampled_from([None, ";", "'", "\t"]),
    ),
    st.builds(ast.Format, st.just("CSV"), column_count=st.integers(1, 9), delimiter=st.sampled_from([None, "|"])),
)
maybe_ident = st.one_of(st.none(), idents)
docs = st.builds(
    lambda label, name, text: ast.Option(label, ast.Phrase("", ast.Word(name), then=ast.Phrase("=", text))),
    st.sampled_from(["DOC ON TYPE", "KEY DOC ON COLUMN", "VALUE DOC ON TYPE"]),
    names,
    texts,
)
strategies = st.one_of(
    st.builds(ast.Phrase, st.just("ID"), st.just(ast.Number("5"))),
    st.just(ast.Phrase("LATEST")),
    st.builds(ast.Phrase, st.just("INLINE"), texts),
)
confluent = st.builds(
    ast.Schema,
    st.just("CONFLUENT SCHEMA REGISTRY"),
    names,
    st.lists(st.one_of(options, docs), max_size=2).map(tuple),
    st.one_of(st.none(), strategies),
    st.one_of(st.none(), strategies),
)
formats = st.one_of(
    plain_formats,
    st.builds(ast.Format, st.just("REGEX"), pattern=TEXT),
    st.builds(ast.Format, st.sampled_from(["AVRO", "PROTOBUF"]), schema=confluent),
    st.builds(
        ast.Format,
        st.just("AVRO"),
        schema=st.one_of(
            st.builds(ast.Schema, st.just("AWS GLUE SCHEMA REGISTRY"), names, any_options),
            st.builds(ast.Schema, options=any_options, text=TEXT),
        ),
    ),
    st.builds(ast.Format, st.just("PROTOBUF"), schema=st.builds(ast.Schema, message=TEXT, text=TEXT)),
)
includes = st.one_of(
    st.builds(ast.Include, st.sampled_from(["KEY", "TIMESTAMP", "PARTITION", "OFFSET", "HEADERS"]), maybe_ident),
    st.builds(ast.Include, st.just("HEADER"), idents, TEXT, truths),
)
headers = st.one_of(
    st.builds(ast.Include, st.just("HEADER"), idents, TEXT, truths),
    st.builds(
        ast.Include,
        st.just("HEADERS"),
        filters=st.lists(st.builds(ast.HeaderFilter, TEXT, truths), max_size=2).map(tuple),
    ),
)
checks = st.builds(
    ast.Check,
    expressions,
    st.lists(
        st.one_of(
            st.builds(ast.CheckInput, st.sampled_from(["HEADERS", "BODY"]), st.none(), maybe_ident, truths),
            st.builds(ast.CheckInput, st.just("SECRET"), names, maybe_ident, truths),
        ),
        max_size=2,
    ).map(tuple),
)
references = st.builds(ast.Reference, names, st.one_of(st.none(), names))
subsources = st.one_of(
    st.builds(ast.Subsources, st.lists(references, min_size=1, max_size=2).map(tuple)),
    st.builds(ast.Subsources, st.just(()), ident_tuples),
    st.just(ast.Subsources()),
)
envelopes = st.one_of(
    st.tuples(st.sampled_from([None, "NONE", "UPSERT", "DEBEZIUM", "MATERIALIZE"]), st.none()),
    st.tuples(st.just("UPSERT"), st.builds(ast.InlineErrors, maybe_ident)),
)
two_formats = st.one_of(st.tuples(st.none(), st.none()), st.tuples(st.none(), formats), st.tuples(formats, formats))
