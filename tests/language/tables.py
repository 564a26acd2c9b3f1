"""Strategies for the columns, tables and indexes that the printer accepts."""

from __future__ import annotations

from hypothesis import strategies as st

from language.values import TYPES, any_options, expressions, ident_tuples, idents, names, truths
from sinkql import ast

columns = st.one_of(
    st.builds(ast.ColumnDef, idents),
    st.builds(ast.ColumnDef, idents, st.builds(ast.TypeName, st.sampled_from(TYPES)), truths),
)
_TYPES_OF_TABLES = ["map[text=>bigint list]", "pg_catalog.int4", '"Of me"', "timestamp without time zone", "text[][]"]
types = st.builds(ast.TypeName, st.sampled_from(TYPES + _TYPES_OF_TABLES))
constraint_names = st.one_of(st.none(), idents)
column_constraints = st.one_of(
    st.builds(ast.ColumnConstraint, st.sampled_from(["NULL", "PRIMARY KEY", "UNIQUE"]), constraint_names),
    st.builds(ast.ColumnConstraint, st.sampled_from(["DEFAULT", "CHECK"]), constraint_names, expressions),
    st.builds(ast.ColumnConstraint, st.just("REFERENCES"), constraint_names, table=names, referenced=ident_tuples),
)
table_columns = st.builds(
    ast.ColumnDef,
    idents,
    types,
    truths,
    st.one_of(st.none(), names),
    st.lists(column_constraints, max_size=3).map(tuple),
)
table_constraints = st.one_of(
    st.builds(ast.TableConstraint, st.sampled_from(["PRIMARY KEY", "UNIQUE"]), ident_tuples, constraint_names),
    st.builds(ast.TableConstraint, st.just("CHECK"), name=constraint_names, expression=expressions),
    st.builds(
        ast.TableConstraint,
        st.just("FOREIGN KEY"),
        ident_tuples,
        constraint_names,
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
