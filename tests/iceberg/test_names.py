"""A namespace or table name is either refused in the statement or becomes one folder in the warehouse."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.program.compiler import compile_text
from support.lake import Lake, Sink
from support.readers import duckdb_folder, pyiceberg_rows

_REGISTRY = discover()
_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = {}, TABLE = {}) MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""
_PIECES = (
    "a", "Z", "7", "é", "日本", "😀", ".", "..", "/", "\\", "#", "?", "%", "%2e", "%2F", " ", "'", '"', "$", "&", "+",
    ":", ";", "=", "@", "~", "-", "_", "(", "]", "*", "|", "<", "\n", "\t", "\x00", "\x7f", "\u200b", "\u2028", "`",
    "../", "/..", "../../../outside", "metadata", "x" * 190,
)  # fmt: skip


def _names() -> list[tuple[str, str]]:
    chance = random.Random(11)

    def name() -> str:
        return "".join(chance.choices(_PIECES, k=chance.randint(1, 3)))

    alone = [(each, "t") for each in _PIECES[::2]] + [("shop", each) for each in _PIECES]
    return alone + [(name(), name()) for _ in range(40)]


def _refused(namespace: str, table: str) -> bool:
    quoted = ("'" + each.replace("'", "''") + "'" for each in (namespace, table))
    script = _SCRIPT.format(*quoted)
    try:
        compile_text(script, registry=_REGISTRY)
    except SinkqlError as error:
        return error.hint is not None and error.span is not None
    return False


@pytest.mark.long
def test_names_are_refused_or_one_folder_in_the_warehouse(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    lake = Lake(tmp_path / "deep" / "er")
    taken = 0
    for number, (namespace, table) in enumerate(_names()):
        if _refused(namespace, table):
            continue
        sink = Sink(lake, table, id=str(number), options={"namespace": namespace})
        sink.start()
        sink.put((1, "a"))
        found = lake.catalog().load_table((*namespace.split("."), table))
        folder = tmp_path / "deep" / "er" / "warehouse" / namespace / table
        assert found.location() == f"file://{folder}"
        assert (folder / "metadata").is_dir()
        assert pyiceberg_rows(found, ("id", "name")) == [(1, "a")]
        if not set("'\"*[]") & set(f"{namespace}{table}"):  # have a meaning in paths passed to DuckDB
            assert duckdb_folder(folder, "id, name") == [(1, "a")], (namespace, table)
        taken += 1
    assert taken > 20
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in (tmp_path / "deep" / "er").iterdir()} == {"catalog.db", "state", "warehouse"}


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "a#b", "a?b", "a%2fb", "a\nb", "x" * 201, " a", "."])
def test_names_that_are_no_segment_are_refused(name: str) -> None:
    assert _refused("a", name)
    assert _refused(name, "a")
