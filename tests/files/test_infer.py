"""CREATE SOURCE … FROM FILES without columns → columns inferred from the files and stored with the source."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sinkql import compile as compile_sql
from sinkql import connect
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, ReadCounts
from sinkql.connectors.files.infer import infer
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type
from sinkql.physical import Column
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script

_CSV = {"name": "CSV", "header": True, "delimiter": ","}
_JSON = {"name": "JSON", "whole": False}


def _put(folder: Path, name: str, data: str | bytes) -> None:
    path = folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.utime(path, (1_700_000_000, 1_700_000_000))


def _found(folder: Path, options: dict[str, Any]) -> dict[str, str]:
    place = Folder(folder / "in", "*", False)
    return dict(infer(place, place.files(), discover().formats[options["name"]].decoding, options))


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "-20", "0"], "bigint"),
        (["1", "", "999999999999999999"], "bigint"),
        (["1", "2.5"], "double precision"),
        (["1e5", "-0.25"], "double precision"),
        (["007", "123"], "text"),
        (["99999999999999999999"], "text"),
        (["true", "false"], "boolean"),
        (["true", "1"], "text"),
        (["2024-02-29", "1999-12-31"], "date"),
        (["2024-02-30"], "text"),
        (["2024-02-29 10:00:00", "2024-02-29T10:00:00.25"], "timestamp"),
        (["2024-02-29T10:00:00Z", "2024-02-29 10:00:00+02:00"], "timestamptz"),
        (["2024-02-29", "2024-02-29 10:00:00"], "text"),
        (["", ""], "text"),
        (["NaN", "1"], "text"),
        ([" 1", "2"], "text"),
    ],
)
def test_types_of_csv_columns(tmp_path: Path, texts: list[str], type_: str) -> None:
    _put(tmp_path, "a.csv", "x,v\n" + "".join(f"t,{text}\n" for text in texts))
    assert {"x": "text", "v": type_} == _found(tmp_path, _CSV)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "null", "-9223372036854775808"], "bigint"),
        (["1", "1.5"], "double precision"),
        (["9223372036854775808"], "jsonb"),
        (["true", "false"], "boolean"),
        (['"a"', '"1"'], "text"),
        (['"2024-02-29"'], "date"),
        (['"2024-02-29T10:00:00Z"'], "timestamptz"),
        (['{"a": 1}', "[1]"], "jsonb"),
        (["1", '"a"'], "jsonb"),
        (["null"], "jsonb"),
    ],
)
def test_types_of_json_members(tmp_path: Path, values: list[str], type_: str) -> None:
    _put(tmp_path, "a.json", "".join(f'{{"x": "t", "v": {value}}}\n' for value in values))
    assert {"x": "text", "v": type_} == _found(tmp_path, _JSON)


@pytest.mark.long
def test_the_first_and_last_files_are_sampled_and_only_their_beginnings(tmp_path: Path) -> None:
    for number in range(20):
        _put(tmp_path, f"{number:02}.json", f'{{"n{number}": 1}}\n')
    _put(tmp_path, "01.json", '{"n1": 1}\n' * 200_000 + '{"late": 1}\n')
    assert [f"n{number}" for number in (0, 1, 2, 17, 18, 19)] == list(_found(tmp_path, _JSON))


@pytest.mark.parametrize("seed", range(30))
def test_all_of_a_sample_is_read_in_the_columns_that_are_found(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    fields = ["", "0", "1", "-5", "12345678901234567", "1.5", "1e300", "1e99", "abc", '"q ""x"""', "true", "t", "é",
              "2024-01-01", "0000-01-01", "2024-01-01 00:00:00", "2024-01-01 24:00:00", "2024-01-01T00:00:00+14:00",
              "00", "-0", "1.", ".5", "NULL", "\\N", "{}", "[1]"]  # fmt: skip
    kinds = [chance.sample(fields, chance.randint(1, 3)) for _ in range(6)]
    rows = [",".join(chance.choice(kind) for kind in kinds) for _ in range(12)]
    _put(tmp_path, "a.csv", "a,b,c,d,e,f\n" + "\n".join(rows) + "\n")
    folder, found = Folder(tmp_path / "in", "*", False), _found(tmp_path, _CSV)
    decoding = discover().formats["CSV"].decoding
    columns = tuple(Column(name, parse_type(type_)) for name, type_ in found.items())
    reader = FilesReader("s", folder, tmp_path / "state", "files", columns, _CSV, decoding, "fail", None)
    start = reader.initial(at_end=False)
    read_counts = ReadCounts()
    for split in reader.splits(start, reader.latest(start, Limit(1 << 40))):
        for _ in reader.read(split, read_counts):
            pass
    assert (read_counts.rows, read_counts.failed) == (12, 0)


def test_compressed_files_are_sampled(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv.gz", gzip.compress(b"id,name\n1,x\n"))
    assert _found(tmp_path, _CSV) == {"id": "bigint", "name": "text"}


@pytest.mark.parametrize("head", ["a,a", "a,", "$a,b"])
def test_a_header_that_cannot_name_columns_is_an_error(tmp_path: Path, head: str) -> None:
    _put(tmp_path, "a.csv", f"{head}\n1,2\n")
    with pytest.raises(SinkqlError, match="its header has a name that is empty, reserved or duplicate") as e:
        _found(tmp_path, _CSV)
    assert e.value.code == "SQ3102"


_CREATE = "CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT {};"


@pytest.mark.parametrize(
    ("format_", "data", "columns"),
    [
        ("CSV WITH HEADER", 'id,"Full Name"\n1,x\n', '(id bigint, "Full Name" text)'),
        ("CSV WITH HEADER DELIMITED BY ';'", "id;day\n1;2024-01-01\n", "(id bigint, day date)"),
        ("JSON", '{"id": 1, "tags": [1]}\n', "(id bigint, tags jsonb)"),
        ("JSON ARRAY", '[{"id": 1, "tags": [1]}]', "(id bigint, tags jsonb)"),
    ],
)
def test_a_source_without_columns_has_those_of_its_files_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, data: str, columns: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _put(tmp_path, "a", data)
    create = _CREATE.format(format_)
    with connect() as session:
        (made,) = session.execute(create)
        assert [(notice.code, notice.message) for notice in made.notices] == [
            ("SQ2415", f"columns found in a sample: {columns}")
        ]
    compiled = compile_sql(create)
    assert [notice.message for notice in compiled.notices] == [f"columns found in a sample: {columns}"]
    shutil.rmtree(tmp_path / "in")
    with connect() as session:
        (shown,) = session.execute("SHOW CREATE SOURCE s;")
        lines = [line.strip() for line in str(shown.rows[0][1]).splitlines()]
        assert columns in " ".join(lines)
        (again,) = session.execute(create)
        assert [notice.code for notice in again.notices] == ["SQ2012"]
        (names,) = session.execute("SHOW COLUMNS FROM s;")
        assert len(names.rows) == 2


def test_a_source_without_columns_is_planned_and_applied_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _put(tmp_path, "a.csv", "id,day\n1,2024-01-01\n")
    text = _CREATE.format("CSV WITH HEADER") + "CREATE VIEW v AS SELECT id + 1 AS next, day FROM s;"
    scripts = [Script("p.sql", text)]
    with connect() as session:
        deployment = plan_deployment(scripts, session)
        assert [step.action for step in deployment.steps] == ["create", "create"]
        apply(deployment, session)
        shutil.rmtree(tmp_path / "in")
        assert plan_deployment(scripts, session).steps == ()
        (columns,) = session.execute("SHOW COLUMNS FROM v;")
    assert [row[0] for row in columns.rows] == ["next", "day"]


def test_without_inference_a_json_object_is_one_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _put(tmp_path, "a.json", '{"id": 1}\n')
    with connect() as session:
        session.execute("CREATE SOURCE s FROM FILES (PATH = 'in', INFER = false) FORMAT JSON;")
        (shown,) = session.execute("SHOW COLUMNS FROM s;")
    assert [row[0] for row in shown.rows] == ["data"]


def test_a_file_that_cannot_be_sampled_is_an_error_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _put(tmp_path, "a.csv.gz", b"no gzip")
    with connect() as session, pytest.raises(SinkqlError) as error:
        session.execute(_CREATE.format("CSV WITH HEADER"))
    assert error.value.code == "SQ3102"
    assert error.value.span is not None


def test_options_of_the_format_are_those_of_the_sample(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", "# made by 'hand\nid;'na;me'\n1;NA\nNA;'x\n'\n")
    options = {**_CSV, "delimiter": ";", "quote": "'", "escape": "'", "null": "NA", "comment": "#"}
    assert _found(tmp_path, options) == {"id": "bigint", "na;me": "text"}


@pytest.mark.parametrize("rows", [3, 100_000])
def test_columns_of_an_array_are_found_also_where_the_sample_ends_in_it(tmp_path: Path, rows: int) -> None:
    _put(tmp_path, "a.json", "[" + ",\n".join(f'{{"id": {i}, "t": "x"}}' for i in range(rows)) + "]\n")
    assert _found(tmp_path, {**_JSON, "array": True}) == {"id": "bigint", "t": "text"}


def test_names_of_a_header_without_columns_are_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _put(tmp_path, "a.csv", "a,b,c\n1,2,3\n")
    with connect() as session:
        session.execute(_CREATE.format("CSV WITH HEADER (a, c)"))
        (shown,) = session.execute("SHOW COLUMNS FROM s;")
    assert [row[0] for row in shown.rows] == ["a", "c"]


def test_what_a_user_might_not_expect_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text(
        "id,n,d,s,m\n1,2,0.30000000000000004,x,1\n2,n/a,721.5400323407825,y,2024-02-29\n"
    )
    (tmp_path / "in/b.csv").write_text("id,n,d,s,m,z\n1,2,1e3,x,2,7\n")
    found, *notes = compile_sql("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER;").notices
    assert found.message == "columns found in a sample: (id bigint, n text, d double precision, s text, m text)"
    path = tmp_path / "in/b.csv"
    assert [note.message for note in notes] == [
        f'column "z" is left out: "{path}" has it, but not every file',
        'column "n" is text: "n/a" is one',
        'column "m" is text: "1" and "2024-02-29" are of different types',
    ]
    for name, columns in (("a", {"id": [1]}), ("b", {"id": [2], "v": [3]})):
        pq.write_table(pa.table(columns), tmp_path / f"in/{name}.parquet")
    statement = "CREATE SOURCE s FROM FILES (PATH = 'in', GLOB = '*.parquet') FORMAT PARQUET;"
    assert "v" in compile_sql(statement).notices[1].message
