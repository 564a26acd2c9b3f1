"""Any statement that the printer may be given, and any text that the parser may be given."""

from __future__ import annotations

from hypothesis import strategies as st

from sinkql import ast, words
from sinkql.parser import grammar

_WORDS = sorted(grammar.keywords() | words.QUOTED | words.SHOWN)
_CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
_TEXT = st.text(_CHARACTERS, max_size=8)
_PLAIN = st.sampled_from(["a", "orders", "_x$1", "größe", "x2"])
_NAMES = st.one_of(
    _PLAIN,
    st.sampled_from(_WORDS).map(str.lower),
    st.sampled_from(_WORDS),
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
_TYPES = ["bigint", "numeric(10,2)", "timestamp(6) with time zone", "double precision", "text[]", "text list"]

idents = st.builds(ast.Ident, _NAMES)
names = st.lists(idents, min_size=1, max_size=3).map(lambda parts: ast.Name(tuple(parts)))
ident_tuples = st.lists(idents, min_size=1, max_size=3).map(tuple)
texts = st.builds(ast.Text, _TEXT)
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
    numbers, st.builds(ast.Boolean, st.booleans()), st.just(ast.Null()), st.builds(ast.Interval, _TEXT), hexes
)
concats = st.lists(st.one_of(texts, secrets), min_size=2, max_size=3).map(lambda parts: ast.Concat(tuple(parts)))
_bare = st.builds(ast.Word, names)
_simple_options = st.lists(
    st.builds(ast.Option, st.sampled_from(["PORT", "SIZE", "NOT KNOWN"]), st.one_of(texts, numbers, _bare)),
    min_size=1,
    max_size=2,
).map(tuple)
_no_options = st.one_of(st.just(()), _simple_options)
_through = st.one_of(
    st.builds(ast.Phrase, st.just("USING SSH TUNNEL"), _bare),
    st.builds(ast.Phrase, st.just("USING AWS PRIVATELINK"), _bare, _no_options),
)
_aligned = st.builds(ast.Phrase, st.just("ALIGNED TO"), expressions)
phrases = st.one_of(
    st.builds(ast.Phrase, st.just("FOR"), st.one_of(scalars, texts)),
    st.sampled_from([ast.Phrase("ON COMMIT"), ast.Phrase("AT CREATION")]),
    st.builds(ast.Phrase, st.just("AT"), expressions),
    st.builds(ast.Phrase, st.just("EVERY"), st.builds(ast.Interval, _TEXT), then=st.one_of(st.none(), _aligned)),
    st.builds(ast.Phrase, st.just("ON REFRESH"), st.none(), _no_options),
    st.builds(ast.Phrase, st.just("ON HYDRATION"), st.none(), _simple_options),
    st.builds(ast.Phrase, st.sampled_from(["", "MATCHING"]), texts, then=_through),
    st.builds(ast.Phrase, st.just(""), _bare, _simple_options),
)
values = st.recursive(
    st.one_of(scalars, texts, secrets, concats, _bare, phrases),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: ast.Sequence(tuple(items))),
        st.lists(st.builds(ast.MapEntry, _TEXT, inner), max_size=3).map(lambda entries: ast.Map(tuple(entries))),
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
    may_stand_alone = label in words.OPTION_NAMES or " " not in label
    return st.builds(ast.Option, st.just(label), st.one_of(st.none(), lowered) if may_stand_alone else lowered)


options = st.sampled_from([*sorted(words.OPTION_NAMES), "UNKNOWN", "NOT KNOWN", "GROUP"]).flatmap(_label)
some_options = st.lists(options, min_size=1, max_size=3).map(tuple)
any_options = st.lists(options, max_size=3).map(tuple)
truths = st.booleans()

columns = st.one_of(
    st.builds(ast.ColumnDef, idents),
    st.builds(ast.ColumnDef, idents, st.builds(ast.TypeName, st.sampled_from(_TYPES)), truths),
)
_TYPES_OF_TABLES = ["map[text=>bigint list]", "pg_catalog.int4", '"Of me"', "timestamp without time zone", "text[][]"]
types = st.builds(ast.TypeName, st.sampled_from(_TYPES + _TYPES_OF_TABLES))
_constraint_names = st.one_of(st.none(), idents)
_column_constraints = st.one_of(
    st.builds(ast.ColumnConstraint, st.sampled_from(["NULL", "PRIMARY KEY", "UNIQUE"]), _constraint_names),
    st.builds(ast.ColumnConstraint, st.sampled_from(["DEFAULT", "CHECK"]), _constraint_names, expressions),
    st.builds(ast.ColumnConstraint, st.just("REFERENCES"), _constraint_names, table=names, referenced=ident_tuples),
)
table_columns = st.builds(
    ast.ColumnDef,
    idents,
    types,
    truths,
    st.one_of(st.none(), names),
    st.lists(_column_constraints, max_size=3).map(tuple),
)
table_constraints = st.one_of(
    st.builds(ast.TableConstraint, st.sampled_from(["PRIMARY KEY", "UNIQUE"]), ident_tuples, _constraint_names),
    st.builds(ast.TableConstraint, st.just("CHECK"), name=_constraint_names, expression=expressions),
    st.builds(
        ast.TableConstraint,
        st.just("FOREIGN KEY"),
        ident_tuples,
        _constraint_names,
        table=names,
        referenced=ident_tuples,
    ),
)
create_tables = st.builds(
    ast.CreateTable,
    names,
    st.lists(table_columns, max_size=3).map(tuple),
    st.lists(table_constraints, max_size=2).map(tuple),
    any_options,
    truths,
    truths,
)
create_indexes = st.builds(
    ast.CreateIndex,
    names,
    st.one_of(st.none(), idents),
    st.one_of(st.none(), st.lists(expressions, min_size=1, max_size=3).map(tuple)),
    st.one_of(st.none(), idents),
    any_options,
    truths,
)
schema_names = st.lists(idents, min_size=1, max_size=2).map(lambda parts: ast.Name(tuple(parts)))

_plain_formats = st.one_of(
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
_maybe_ident = st.one_of(st.none(), idents)
_docs = st.builds(
    lambda label, name, text: ast.Option(label, ast.Phrase("", ast.Word(name), then=ast.Phrase("=", text))),
    st.sampled_from(["DOC ON TYPE", "KEY DOC ON COLUMN", "VALUE DOC ON TYPE"]),
    names,
    texts,
)
_strategies = st.one_of(
    st.builds(ast.Phrase, st.just("ID"), st.just(ast.Number("5"))),
    st.just(ast.Phrase("LATEST")),
    st.builds(ast.Phrase, st.just("INLINE"), texts),
)
_confluent = st.builds(
    ast.Schema,
    st.just("CONFLUENT SCHEMA REGISTRY"),
    names,
    st.lists(st.one_of(options, _docs), max_size=2).map(tuple),
    st.one_of(st.none(), _strategies),
    st.one_of(st.none(), _strategies),
)
formats = st.one_of(
    _plain_formats,
    st.builds(ast.Format, st.just("REGEX"), pattern=_TEXT),
    st.builds(ast.Format, st.sampled_from(["AVRO", "PROTOBUF"]), schema=_confluent),
    st.builds(
        ast.Format,
        st.just("AVRO"),
        schema=st.one_of(
            st.builds(ast.Schema, st.just("AWS GLUE SCHEMA REGISTRY"), names, any_options),
            st.builds(ast.Schema, options=any_options, text=_TEXT),
        ),
    ),
    st.builds(ast.Format, st.just("PROTOBUF"), schema=st.builds(ast.Schema, message=_TEXT, text=_TEXT)),
)
includes = st.one_of(
    st.builds(ast.Include, st.sampled_from(["KEY", "TIMESTAMP", "PARTITION", "OFFSET", "HEADERS"]), _maybe_ident),
    st.builds(ast.Include, st.just("HEADER"), idents, _TEXT, truths),
)
_headers = st.one_of(
    st.builds(ast.Include, st.just("HEADER"), idents, _TEXT, truths),
    st.builds(
        ast.Include,
        st.just("HEADERS"),
        filters=st.lists(st.builds(ast.HeaderFilter, _TEXT, truths), max_size=2).map(tuple),
    ),
)
checks = st.builds(
    ast.Check,
    expressions,
    st.lists(
        st.one_of(
            st.builds(ast.CheckInput, st.sampled_from(["HEADERS", "BODY"]), st.none(), _maybe_ident, truths),
            st.builds(ast.CheckInput, st.just("SECRET"), names, _maybe_ident, truths),
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
_envelopes = st.one_of(
    st.tuples(st.sampled_from([None, "NONE", "UPSERT", "DEBEZIUM", "MATERIALIZE"]), st.none()),
    st.tuples(st.just("UPSERT"), st.builds(ast.InlineErrors, _maybe_ident)),
)
_two_formats = st.one_of(st.tuples(st.none(), st.none()), st.tuples(st.none(), formats), st.tuples(formats, formats))
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
def _sources(draw: st.DrawFn) -> ast.CreateSource:
    kind = draw(st.sampled_from(["FILES", "LOAD GENERATOR", "KAFKA", "POSTGRES", "MYSQL", "SQL SERVER"]))
    with_columns = draw(truths)
    key_format, value_format = draw(_two_formats)
    envelope, inline_errors = draw(_envelopes)
    return ast.CreateSource(
        name=draw(names),
        kind=kind,
        options=draw(some_options if kind == "FILES" else any_options),
        columns=tuple(draw(st.lists(columns, min_size=1, max_size=3))) if with_columns else (),
        primary_key=draw(st.one_of(st.just(()), ident_tuples)) if with_columns else (),
        cluster=draw(_maybe_ident),
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


_bodies = st.sampled_from([ast.Format("JSON"), ast.Format("JSON", array=True), ast.Format("TEXT"), ast.Format("BYTES")])
webhooks = st.builds(
    ast.CreateSource,
    names,
    st.just("WEBHOOK"),
    cluster=_maybe_ident,
    format=_bodies,
    include=st.lists(_headers, max_size=2).map(tuple),
    check=st.one_of(st.none(), checks),
    if_not_exists=truths,
)
tables_from_webhooks = st.builds(
    ast.CreateTableFrom,
    names,
    st.none(),
    format=_bodies,
    include=st.lists(_headers, max_size=2).map(tuple),
    check=st.one_of(st.none(), checks),
    if_not_exists=truths,
)


@st.composite
def _tables_from_sources(draw: st.DrawFn) -> ast.CreateTableFrom:
    key_format, value_format = draw(_two_formats)
    envelope, inline_errors = draw(_envelopes)
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
def _views(draw: st.DrawFn) -> ast.CreateView:
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
        replica=draw(_maybe_ident) if materialized else None,
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
_partitions = st.builds(ast.Option, st.just("PARTITION BY"), expressions)


@st.composite
def _kafka_sinks(draw: st.DrawFn) -> ast.CreateSink:
    key_format, value_format = draw(_two_formats)
    named = options.filter(lambda option: option.name != "PARTITION BY")
    return ast.CreateSink(
        relation=draw(names),
        kind="KAFKA",
        connection=draw(names),
        name=draw(st.one_of(st.none(), names)),
        options=tuple(draw(st.lists(st.one_of(named, _partitions), max_size=3))),
        cluster=draw(_maybe_ident),
        key=draw(st.one_of(st.none(), st.builds(ast.Key, ident_tuples, truths))),
        headers=draw(_maybe_ident),
        key_format=key_format,
        value_format=value_format,
        envelope=draw(st.sampled_from([None, "UPSERT", "DEBEZIUM"])),
        with_options=draw(any_options),
        if_not_exists=draw(truths),
    )


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
        create_sinks,
        _views(),
        st.builds(ast.ItemRef, st.sampled_from(["SINK", "SOURCE", "VIEW", "MATERIALIZED VIEW"]), names),
    ),
    st.sampled_from(["RAW", "OPTIMIZED", "PHYSICAL", "SPARK SQL"]),
    st.sampled_from(["TEXT", "JSON"]),
)
statements = st.one_of(
    create_secrets,
    create_connections,
    create_clusters,
    _sources(),
    webhooks,
    _views(),
    create_sinks,
    _kafka_sinks(),
    tables_from_webhooks,
    _tables_from_sources(),
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
    *_WORDS,
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
