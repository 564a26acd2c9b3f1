"""Files as other programs write them → rows: encodings, archives, blank lines, repeated names in headers."""

from __future__ import annotations

import csv
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.pipeline import run_once
from sinkql.connectors.files.encoding import encoding_of
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.readers import duckdb_folder

_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
_SINK = """
CREATE SINK {0}_sink FROM {0} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{0}') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_LAKE)
        yield session


def _rows(session: Session, source: str, name: str = "s") -> list[tuple[object, ...]]:
    """Return the rows of a source's files in a table that DuckDB reads."""
    session.execute(source + _SINK.format(name))
    run_once(session, f"{name}_sink")
    columns = ", ".join(f'"{row[0]}"' for row in session.execute(f"SHOW COLUMNS FROM {name};")[0].rows)
    return sorted(duckdb_folder(Path("lake/n", name), columns))


def _zip(*files: tuple[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return data.getvalue()


_TEXTS = {
    "LATIN1": "Grüße, naïve",
    "win1252": "10 € – “so”",
    "SJIS": "日本語、カタカナ",
    "GB18030": "汉字 😀",
    "UTF16": "añ 😀 汉",
    "cp037": 'EBCDIC "x"',
}


@pytest.mark.parametrize("encoding", _TEXTS)
def test_files_of_other_encodings_have_the_rows_that_they_have_in_utf_8(session: Session, encoding: str) -> None:
    texts = [_TEXTS[encoding] * (number % 40) for number in range(300)]
    written = io.StringIO(newline="")
    csv.writer(written).writerows([("id", "t"), *enumerate(texts)])
    for name, place in (("utf8", "utf-8"), ("other", encoding_of(encoding) or "")):
        Path(f"in/{name}.csv").write_bytes(written.getvalue().encode(place))
    found = [
        _rows(
            session,
            f"CREATE SOURCE {name} (id bigint, t text) FROM FILES (PATH = 'in', GLOB = '{name}.csv'{option}) "
            "FORMAT CSV WITH HEADER;",
            name,
        )
        for name, option in (("utf8", ""), ("other", f", ENCODING = '{encoding}'"))
    ]
    assert found[0] == [(number, text or None) for number, text in enumerate(texts)]
    assert found[1] == found[0]


def test_bytes_that_are_no_text_stop_the_sink_and_name_the_file(session: Session) -> None:
    Path("in/a.csv").write_bytes(b"id,t\n1,\x81\n")
    source = (
        "CREATE SOURCE s (id bigint, t text) FROM FILES (PATH = 'in', ENCODING = 'WIN1252') FORMAT CSV WITH HEADER;"
    )
    with pytest.raises(
        SinkqlError, match=r'a\.csv" cannot be read as CSV: it has bytes that are not text.*: 81'
    ) as told:
        _rows(session, source)
    assert told.value.code == "SQ3102"


def test_text_in_another_encoding_is_told_with_the_option(session: Session) -> None:
    Path("in/a.csv").write_bytes("id,t\n1,naïve\n".encode("latin1"))
    with pytest.raises(SinkqlError, match="invalid UTF-8") as told:
        _rows(session, "CREATE SOURCE s (id bigint, t text) FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER;")
    assert told.value.code == "SQ3101"
    assert "with the ENCODING" in (told.value.hint or "")


@pytest.mark.parametrize("name", ["UTF8", "utf-8", "Unicode", "UTF_8", "us-ascii"])
def test_utf_8_is_what_files_are_in_anyway(name: str) -> None:
    assert encoding_of(name) is None


@pytest.mark.parametrize("name", ["latin-9x", "base64", "rot13", "idna", "", "utf-8; x"])
def test_names_of_no_encoding_are_refused(session: Session, name: str) -> None:
    with pytest.raises(SinkqlError) as told:
        session.execute(f"CREATE SOURCE s (t text) FROM FILES (PATH = 'in', ENCODING = '{name}') FORMAT CSV;")
    assert told.value.code == "SQ2419"


def test_an_archive_of_one_file_is_read_by_its_name_or_by_the_option(session: Session) -> None:
    rows = b"id,t\n" + b"".join(b"%d,x\n" % number for number in range(20_000))
    Path("in/a.csv.zip").write_bytes(_zip(("folder/", b""), ("folder/a.csv", rows), ("__MACOSX/._a.csv", b"?")))
    Path("in/b.csv").write_bytes(_zip(("b.csv", b"id,t\n-1,y\n")))
    expected = [(number, "x") for number in range(20_000)]
    assert _rows(session, "CREATE SOURCE s FROM FILES (PATH = 'in', GLOB = 'a*') FORMAT CSV WITH HEADER;") == expected
    by_option = "CREATE SOURCE b FROM FILES (PATH = 'in', GLOB = 'b*', COMPRESSION = ZIP) FORMAT CSV WITH HEADER;"
    assert _rows(session, by_option, "b") == [(-1, "y")]


def _locked() -> bytes:
    data = bytearray(_zip(("a.csv", b"id\n1\n")))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= 1
    return bytes(data)


def _damaged() -> bytes:
    content = random.Random(7).randbytes(200_000).hex().encode()
    data = bytearray(_zip(("a.csv", b"id\n" + content)))
    data[100_000] ^= 255
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_zip(("a.csv", b"id\n1\n"), ("b.csv", b"id\n2\n")), "it is a zip archive of 2 files"),
        (_zip(), "it is a zip archive of 0 files"),
        (_zip(("a.csv", b"id\n1\n"))[:-9], "it cannot be read as a zip archive"),
        (b"id\n1\n", "it cannot be read as a zip archive"),
        (b"", "a zip file cannot be empty"),
        (_locked(), "it is a zip archive with a password"),
        (_damaged(), "it cannot be read as a zip archive"),
    ],
    ids=["two files", "no file", "cut off", "no archive", "empty", "password", "damaged"],
)
def test_another_archive_is_an_error_that_names_it(session: Session, data: bytes, why: str) -> None:
    Path("in/a.zip").write_bytes(data)
    with pytest.raises(SinkqlError, match=why) as told:
        _rows(session, "CREATE SOURCE s (id text) FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER;")
    assert told.value.code == "SQ3102"
    assert "a.zip" in told.value.message
    assert not Path("lake/n/s/data").exists()


@pytest.mark.parametrize(("end", "header"), [("\n", True), ("\r\n", False), ("\r\n", True), ("\r", True)])
def test_blank_lines_are_left_out_where_the_option_says_so(session: Session, end: str, header: bool) -> None:
    picks = random.Random(5)
    lines: list[str] = []
    for number in range(400):
        lines += [
            f'{number},"a{end}{end}b"' if number % 7 == 0 else f"{number},x",
            *[""] * picks.choice((0, 0, 0, 1, 3)),
        ]
    Path("in/a.csv").write_text(end.join(["", "id,t", "", *lines] if header else ["", *lines]), newline="")
    form = "CSV WITH HEADER (SKIP BLANK LINES = true)" if header else "CSV WITH 2 COLUMNS (SKIP BLANK LINES = true)"
    columns = " (id bigint, t text)" if header else ""
    found = _rows(session, f"CREATE SOURCE s{columns} FROM FILES (PATH = 'in') FORMAT {form};")
    expected = [(number, f"a{end}{end}b" if number % 7 == 0 else "x") for number in range(400)]
    assert sorted((int(str(id_)), text) for id_, text in found) == expected


def test_a_blank_line_is_told_with_the_option(session: Session) -> None:
    Path("in/a.csv").write_text("id,t\n1,x\n\n")
    with pytest.raises(SinkqlError, match=r"a\.csv:3: expected 2 fields, found a blank line") as told:
        _rows(session, "CREATE SOURCE s (id bigint, t text) FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER;")
    assert "(SKIP BLANK LINES = true)" in (told.value.hint or "")


def test_names_that_repeat_or_lack_are_made_up_where_columns_go_by_position(session: Session) -> None:
    Path("in/a.csv").write_text("id,name,,name,column3,name_2\n1,a,b,c,d,e\n")
    Path("in/b.csv").write_text('x,y,z,,,"q,"\n2,f,g,h,i,j\n')
    plain = "CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER"
    with pytest.raises(SinkqlError, match="a name that is empty, reserved or duplicate") as told:
        session.execute(f"{plain};")
    hint = told.value.hint or ""
    option = hint[hint.index("(") : hint.index(")") + 1]
    assert _rows(session, f"{plain} {option};") == [(1, *"abcde"), (2, *"fghij")]
    names = ["id", "name", "column3_2", "name_3", "column3", "name_2"]
    assert [row[0] for row in session.execute("SHOW COLUMNS FROM s;")[0].rows] == names


def test_columns_by_position_are_as_many_as_the_header_has(session: Session) -> None:
    Path("in/a.csv").write_text("a,a\n1,x\n")
    source = "CREATE SOURCE {} ({}) FROM FILES (PATH = 'in') FORMAT CSV WITH HEADER (COLUMNS BY = POSITION);"
    with pytest.raises(SinkqlError, match="its header has 2 fields, and the source 1 columns"):
        _rows(session, source.format("s", "id bigint"))
    assert _rows(session, source.format("two", "id bigint, t text"), "two") == [(1, "x")]


@pytest.mark.parametrize("form", ["CSV WITH HEADER (a, b)", "CSV WITH 2 COLUMNS"])
def test_columns_by_position_need_a_header_without_names(session: Session, form: str) -> None:
    with pytest.raises(SinkqlError) as told:
        session.execute(
            f"CREATE SOURCE s (a text, b text) FROM FILES (PATH = 'in') FORMAT {form} (COLUMNS BY = POSITION);"
            if "HEADER" in form
            else f"CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT {form} (COLUMNS BY = POSITION);"
        )
    assert told.value.code == "SQ2414"


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}]', '[\n  {"a": 1},\n  {"a": 2}\n]\n', " [\n]"])
def test_an_array_is_not_taken_for_one_document_a_line(session: Session, text: str) -> None:
    Path("in/a.json").write_text(text)
    with pytest.raises(SinkqlError, match="it is a JSON array") as told:
        session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;")
    assert told.value.hint == "Write FORMAT JSON ARRAY."
    with pytest.raises(SinkqlError, match="invalid row") as later:
        _rows(session, "CREATE SOURCE d (a bigint) FROM FILES (PATH = 'in') FORMAT JSON;", "d")
    assert "FORMAT JSON ARRAY" in (later.value.hint or "")


@pytest.mark.parametrize("text", ['{\n  "a": 1\n}\n', '{"a": [\n1]}\n{"a": []}\n', "\n{\n}"])
def test_an_object_of_several_lines_is_not_taken_for_rows(session: Session, text: str) -> None:
    Path("in/a.json").write_text(text)
    with pytest.raises(SinkqlError, match="its JSON objects have several lines") as told:
        session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;")
    assert told.value.hint == "Write one object per line."
    Path("in/a.json").write_text(text.replace("\n", ""))
    assert session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;")


def test_lines_that_are_arrays_are_documents(session: Session) -> None:
    Path("in/a.json").write_text("[1, 2]\n[3]\n")
    assert _rows(session, "CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;") == [("[1, 2]",), ("[3]",)]
