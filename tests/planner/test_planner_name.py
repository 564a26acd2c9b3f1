"""Full names: joined, split and resolved."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.planner.item.setting import plan_setting
from sinkql.planner.name import locate, named, path_parts, qualified_name, resolve, short_name, split_name


def name(*parts: str) -> ast.Name:
    return ast.Name(tuple(ast.Ident(part) for part in parts))


def catalog() -> MemoryCatalog:
    """Return a catalog with an item b in schemas public and s, c in s and t, and d in a second database."""
    found = MemoryCatalog(discover())
    found.add(ast.CreateSchema(name("s")), {})
    found.add(ast.CreateSchema(name("materialize", "t")), {})
    found.add(ast.CreateDatabase(ast.Ident("Other")), {})
    found.add(ast.CreateSchema(name("Other", "public")), {})
    for item in (("b",), ("s", "b"), ("s", "c"), ("t", "c"), ("Other", "public", "d")):
        found.add(ast.CreateSecret(name(*item), ast.Text("x")), {})
    return found


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_split_name_undoes_join_name(parts: list[str]) -> None:
    assert split_name(qualified_name(*parts)) == tuple(parts)


@pytest.mark.parametrize(
    ("parts", "full"),
    [
        (("orders",), "materialize.public.orders"),
        (("public", "orders"), "materialize.public.orders"),
        (("materialize", "public", "orders"), "materialize.public.orders"),
        (("a.b",), 'materialize.public."a.b"'),
        (("mz_catalog", "mz_sinks"), "mz_catalog.mz_sinks"),
        (("materialize", "mz_internal", "mz_sink_statuses"), "mz_internal.mz_sink_statuses"),
    ],
)
def test_names_resolve_to_full_names(parts: tuple[str, ...], full: str) -> None:
    assert resolve(name(*parts), catalog()) == full


@pytest.mark.parametrize(
    "parts", [("elsewhere", "orders"), ("other", "public", "orders"), ("Other", "s", "c"), ("materialize", "S", "c")]
)
def test_an_unknown_schema_or_database_is_refused(parts: tuple[str, ...]) -> None:
    for find in (resolve, locate):
        with pytest.raises(SinkqlError) as refused:
            find(name(*parts), catalog())
        assert refused.value.code == "SQ2004"


@pytest.mark.parametrize(
    ("path", "item", "used", "new"),
    [
        ("public", "b", "materialize.public.b", "materialize.public.b"),
        ("s, public", "b", "materialize.s.b", "materialize.s.b"),
        ("t, s, public", "b", "materialize.s.b", "materialize.t.b"),
        ("t, s", "c", "materialize.t.c", "materialize.t.c"),
        ("nowhere, s", "none", "materialize.s.none", "materialize.s.none"),
    ],
)
def test_names_are_looked_for_along_the_path_and_made_in_its_first_schema(
    path: str, item: str, used: str, new: str
) -> None:
    found = catalog()
    found.set("search_path", path)
    assert (resolve(name(item), found), locate(name(item), found)) == (used, new)


def test_names_are_those_of_the_current_database() -> None:
    found = catalog()
    found.set("database", "Other")
    assert resolve(name("d"), found) == "Other.public.d"
    assert resolve(name("public", "d"), found) == "Other.public.d"
    with pytest.raises(SinkqlError) as refused:
        resolve(name("s", "c"), found)
    assert (refused.value.code, refused.value.hint) == ("SQ2004", "Create it with CREATE SCHEMA, or use public.")


def test_item_without_a_schema_to_be_made_in_is_refused() -> None:
    found = catalog()
    found.set("search_path", "nowhere")
    with pytest.raises(SinkqlError) as refused:
        locate(name("x"), found)
    assert refused.value.code == "SQ2018"


def test_short_names_leave_out_what_goes_without_saying() -> None:
    assert short_name("materialize.public.orders") == "orders"
    assert short_name("mz_catalog.mz_sinks") == "mz_catalog.mz_sinks"
    assert short_name("materialize.s.orders") == "materialize.s.orders"


@pytest.mark.parametrize(
    ("path", "database", "short"),
    [
        ("public", "materialize", ["b", "s.b", "s.c", "Other.public.d", "s", "Other.public", "Other"]),
        ("s, public", "materialize", ["public.b", "b", "c", "Other.public.d", "s", "Other.public", "Other"]),
        (
            "public",
            "Other",
            ["materialize.public.b", "materialize.s.b", "materialize.s.c", "d", "materialize.s", "public", "Other"],
        ),
    ],
)
def test_short_names_are_what_a_user_may_write(path: str, database: str, short: list[str]) -> None:
    found = catalog()
    found.set("search_path", path)
    found.set("database", database)
    full = ["materialize.public.b", "materialize.s.b", "materialize.s.c", "Other.public.d"]
    full += ["materialize.s.", "Other.public.", "Other."]
    kinds = [*["SECRET"] * 4, *["SCHEMA"] * 2, "DATABASE"]
    assert [short_name(each, found) for each in full] == short
    assert [named(kind, name(*split_name(each)), found) for kind, each in zip(kinds, short, strict=True)] == full


def test_full_names_of_clusters_databases_schemas_and_items_never_meet() -> None:
    found = MemoryCatalog(discover())
    found.add(ast.CreateCluster(ast.Ident("a"), (ast.Option("SIZE", ast.Text("local[1]")),)), {})
    found.add(ast.CreateDatabase(ast.Ident("a")), {})
    found.add(ast.CreateSchema(name("a", "a")), {})
    found.add(ast.CreateSecret(name("a", "a", "a"), ast.Text("x")), {})
    assert {"a", "a.", "a.a.", "a.a.a"} <= {entry.name for entry in found.entries()}


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), max_size=3))
def test_a_path_as_it_is_kept_is_taken_apart_again(schemas: list[str]) -> None:
    listed = ast.Sequence(tuple(ast.Text(schema) for schema in schemas))
    statement = ast.SetVariable(ast.Ident("search_path"), listed)
    if schemas:
        assert path_parts(plan_setting(statement).values[0][1]) == tuple(schemas)
