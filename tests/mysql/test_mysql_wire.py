"""What MySQL writes otherwise than MariaDB, built byte by byte: the tests run on it where SINKQL_MYSQLD names one."""

from __future__ import annotations

import fcntl
import socket
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sinkql import physical
from sinkql.connector_api.cdc import CapturedTable
from sinkql.connectors.mysql.binlog import BinlogReader
from sinkql.connectors.mysql.binlog_client import wait_readable
from sinkql.connectors.mysql.binlog_sections import TransactionPart
from sinkql.connectors.mysql.gtid import DomainTransactions, NumberedTransactions, read_tagged_gtid, set_bytes
from sinkql.connectors.mysql.snapshot import _read_owned
from sinkql.connectors.mysql.table_changes import changed_rows, match
from sinkql.connectors.mysql.table_map import TableMap, WatchedTables
from sinkql.connectors.mysql.value import BinaryJsonError, json_text
from sinkql.decode.columnar import Block
from sinkql.logical.type import parse_type
from support.patience import PATIENCE_S

_SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_OTHER = "00000000-0000-0000-0000-00000000000a"


# --- events -----------------------------------------------------------------------------------------------------------


def _event(code: int, body: bytes = b"", *, seconds: int = 1_700_000_000) -> bytes:
    return struct.pack("<IBIIIH", seconds, code, 1, 19 + len(body), 0, 0) + body


def _gtid(number: int, micros: int | None = None) -> bytes:
    body = b"\0" + uuid.UUID(_SERVER).bytes + struct.pack("<q", number)
    if micros is not None:  # from 8.0 on
        body += b"\2" + struct.pack("<qq", 0, 1) + micros.to_bytes(7, "little") + b"\x40"
    return _event(33, body)


def _query(text: str) -> bytes:
    return _event(2, struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0" + text.encode())


def _map() -> bytes:
    """Return the map of d.t (id int unsigned NOT NULL, j json, y year, v varchar(10))."""
    names = b"\2id\1j\1y\1v"
    optional = b"\1\1\x80" + b"\2\1\xff" + bytes((4, len(names))) + names
    optional = optional.replace(b"\2\1\xff", b"\2\3\xfc\xff\0")  # the usual collation, 255
    return _event(
        19,
        struct.pack("<IHH", 7, 0, 1) + b"\1d\0\1t\0\4" + bytes((3, 245, 13, 15)) + b"\3\4\x28\0" + b"\x0e" + optional,
    )


def _image(number: int, document: bytes | None, text: str) -> bytes:
    null = 0 if document is not None else 2
    body = struct.pack("<BI", null, number) + (b"" if document is None else struct.pack("<I", len(document)) + document)
    return body + b"\x7c" + bytes((len(text.encode()),)) + text.encode()


def _rows(code: int, *images: bytes) -> bytes:
    """Return a rows event of the second version, with bytes that are of no concern before the columns."""
    bitmaps = b"\xff" * (2 if code == 31 else 1)
    return _event(
        code, struct.pack("<IHH", 7, 0, 1) + struct.pack("<H", 4) + b"\0\0" + b"\4" + bitmaps + b"".join(images)
    )


_XID = _event(16, b"\0" * 8)
_TABLE = CapturedTable(
    "t1", ("d", "t"),
    tuple(physical.Column(n, parse_type(t)) for n, t in
          (("id", "uint4"), ("j", "jsonb"), ("y", "smallint"), ("v", "text"))),
    ("id",), options={"declared": {"id": "int unsigned", "j": "json", "y": "year", "v": "varchar(10)"}},
)  # fmt: skip
_CHARSETS = {255: "utf8mb4"}


def _walk(*events: bytes, log: BinlogReader | None = None) -> tuple[list[Any], list[str]]:
    """Return the rows that events give, and the ends of their transactions."""
    log = log or _log()
    raw, frames, at = b"".join(events), [], 0
    for each in events:
        frames.append((at, at + len(each)))
        at += len(each)
    block, found, done = log.walk(raw, frames, whole=True)
    assert done == len(events)
    rows: list[Any] = []
    ends: list[str] = []
    for section in found:
        assert isinstance(section, TransactionPart), section
        ends += section.ends
        for part in (part for parts in section.parts.values() for part in parts):
            changed = changed_rows(Block(block), part, match(_TABLE, part.layout, _CHARSETS))
            assert not changed.errors
            rows += [tuple(row.values())[:-1] for row in changed.rows.to_pylist()]
    return rows, ends


def _fits(table: str, layout: TableMap) -> bool:
    return match(_TABLE, layout, _CHARSETS).problem is None


def _log(after: str = "") -> BinlogReader:
    return BinlogReader(NumberedTransactions(after), WatchedTables({("d", "t"): "t1"}, _fits))


_DOCUMENT = b"\x04\x01"
_CHANGES = (
    _map(), _rows(30, _image(4_000_000_000, _DOCUMENT, "é"), _image(2, None, "b")),
    _rows(31, _image(2, None, "b"), _image(2, _DOCUMENT, "c"), _image(2, None, "c"), _image(3, None, "c")),
    _rows(32, _image(3, None, "c")),
)  # fmt: skip
_EXPECTED = [
    (4_000_000_000, "true", 2024, "é", 1), (2, None, 2024, "b", 1), (2, "true", 2024, "c", 1),
    (2, None, None, None, -1), (3, None, 2024, "c", 1), (3, None, None, None, -1),
]  # fmt: skip


def test_rows_of_the_second_version_are_read() -> None:
    rows, ends = _walk(_gtid(6), _query("BEGIN"), *_CHANGES, _XID)
    assert rows == _EXPECTED
    assert [f"{1:016x}:{_SERVER}:6"] == ends


def test_a_compressed_transaction_is_opened() -> None:
    inner = b"".join((_query("BEGIN"), *_CHANGES, _XID))
    data = pa.compress(inner, codec="zstd", asbytes=True)
    fields = (
        b"\2\1\0" + b"\3\3\xfc" + struct.pack("<H", len(inner)) + b"\1\3\xfc" + struct.pack("<H", len(data)) + b"\0"
    )
    rows, ends = _walk(_gtid(1), _event(40, fields + data), _gtid(2), _query("BEGIN"), *_CHANGES, _XID)
    assert [*_EXPECTED, *_EXPECTED] == rows
    assert [f"{1:016x}:{_SERVER}:1", f"{2:016x}:{_SERVER}:1-2"] == ends


def test_a_prepared_transaction_waits_for_its_commit() -> None:
    log = _log()
    prepared = (
        _gtid(1),
        _query("XA START X'61',X'',1"),
        *_CHANGES[:2],
        _query("XA END X'61',X'',1"),
        _event(38, b"\0" * 14),
    )
    rows, ends = _walk(*prepared, log=log)
    assert ([], [f"{1:016x}:{_SERVER}:1;"]) == (rows, ends)
    rows, ends = _walk(_gtid(2), _query("XA COMMIT X'61',X'',1"), log=log)
    assert (_EXPECTED[:2], [f"{2:016x}:{_SERVER}:1-2"]) == (rows, ends)


def test_a_statement_of_its_own_ends_its_transaction() -> None:
    _, ends = _walk(_gtid(1), _query("CREATE TABLE u (a int)"), _gtid(2), _query("BEGIN"), _query("COMMIT"))
    assert [f"{1:016x}:{_SERVER}:1", f"{2:016x}:{_SERVER}:1-2"] == ends


def test_the_time_of_a_commit_has_microseconds() -> None:
    log, events = _log(), (_gtid(6, 1_700_000_000_123_456), _query("BEGIN"), *_CHANGES, _XID)
    at = 0
    frames = []
    for each in events:
        frames.append((at, at + len(each)))
        at += len(each)
    _, (section,), _ = log.walk(b"".join(events), frames, whole=True)
    assert isinstance(section, TransactionPart)
    assert {1_700_000_000_123_456} == set(section.parts["t1"][0].at)


# --- positions --------------------------------------------------------------------------------------------------------


def test_positions_sort_as_commits_do() -> None:
    position = NumberedTransactions(f"{_SERVER}:1-9,{_OTHER.upper()}:3")
    before = position.position()
    for each in (f"{_SERVER}:10", f"{_OTHER}:1", f"{_OTHER}:2", f"{_SERVER}:12", f"{_SERVER}:11"):
        assert not position.contains(each)
        position.add(each)
        assert position.contains(each)
        assert before < (before := position.position())
    assert f"{_OTHER}:1-3,{_SERVER}:1-12" == position.text()
    domains = DomainTransactions("0-1-9,1-2-3")
    before = domains.position()
    for each in ("0-5-10", "1-2-4", "7-1-1"):
        domains.add(each)
        assert before < (before := domains.position())
    assert domains.text() == "0-5-10,1-2-4,7-1-1"


def test_a_set_covers_what_is_in_it() -> None:
    whole = NumberedTransactions(f"{_SERVER}:1-5:8-9:tag:1-2")
    assert whole.covers(NumberedTransactions(f"{_SERVER}:2-3:9:tag:2").position())
    for text in (f"{_SERVER}:5-8", f"{_SERVER}:tag:3", f"{_OTHER}:1"):
        assert not whole.covers(NumberedTransactions(text).position())
    assert f"{_SERVER}:1-5:8-9,{_SERVER}:tag:1-2" == whole.text()


def test_a_set_is_sent_as_replicas_send_it() -> None:
    found = set_bytes(NumberedTransactions(f"{_SERVER}:1-5:8"))
    assert struct.pack("<Q", 1) + uuid.UUID(_SERVER).bytes + struct.pack("<QQQQQ", 2, 1, 6, 8, 9) == found


def test_a_set_of_ids_with_tags_has_these() -> None:
    found = set_bytes(NumberedTransactions(f"{_SERVER}:1-5,{_SERVER}:tag:2"))
    head, own = struct.pack("<Q", 1 << 56 | 2 << 8 | 1), uuid.UUID(_SERVER).bytes
    parts = (own + b"\0" + struct.pack("<QQQ", 1, 1, 6), own + b"\6tag" + struct.pack("<QQQ", 1, 2, 3))
    assert head + b"".join(parts) == found


def test_an_id_with_a_tag_is_read() -> None:
    event = bytes.fromhex(
        "509b056b2a0100000053000000230d000000000278000000028903ad029d035503a1032022c503b902750204f10300000002040806"
        "0a68656c6c6f08300a380c7f7842284d0661061095041283120b"
    )
    assert read_tagged_gtid(event, 0, len(event)) == ("e2abe7d5-e810-11f1-ae9d-02fc00000001:hello:2", 1795529552446072)
    with pytest.raises(ValueError, match="truncated"):
        read_tagged_gtid(event, 0, len(event) - 30)


def test_transactions_that_are_about_to_commit_are_listed() -> None:
    assert [f"{_SERVER}:6", f"{_SERVER}:tag:7"] == _read_owned(f"{_SERVER}:6#12:tag:7#13")
    assert [f"{_SERVER}:6", f"{_SERVER}:7", f"{_OTHER}:1"] == _read_owned(f"{_SERVER}:6#12:7#13,\n{_OTHER}:1#9")
    assert _read_owned("") == []


# --- JSON -------------------------------------------------------------------------------------------------------------


def _small(kind: int, entries: bytes, count: int, rest: bytes = b"") -> bytes:
    return bytes((kind,)) + struct.pack("<HH", count, 4 + len(entries) + len(rest)) + entries + rest


_DOCUMENTS: Sequence[tuple[bytes, str]] = (
    (b"", "null"),
    (b"\x04\x00", "null"), (b"\x04\x01", "true"), (b"\x04\x02", "false"),
    (b"\x05\xff\xff", "-1"), (b"\x06\xff\xff", "65535"),
    (b"\x07" + struct.pack("<i", -2_147_483_648), "-2147483648"),
    (b"\x08" + struct.pack("<I", 4_294_967_295), "4294967295"),
    (b"\x09" + struct.pack("<q", -(2**63)), str(-(2**63))), (b"\x0a" + struct.pack("<Q", 2**64 - 1), str(2**64 - 1)),
    (b"\x0b" + struct.pack("<d", 0.1), "0.1"),
    (b"\x0c\x03a\"b", '"a\\"b"'), (b"\x0c\xc8\x01" + b"x" * 200, f'"{"x" * 200}"'),
    (_small(0, b"", 0), "{}"), (_small(2, b"", 0), "[]"),
    (_small(2, b"\x05\x01\x00" + b"\x04\x00\x00" + b"\x0c\x0d\x00", 3, b"\x01z"), '[1, null, "z"]'),
    (_small(0, b"\x0b\x00\x01\x00" + b"\x05\x07\x00", 1, b"k"), '{"k": 7}'),
    (
        _small(2, b"\x00\x07\x00", 1, _small(0, b"\x0b\x00\x01\x00" + b"\x04\x01\x00", 1, b"k")[1:]), '[{"k": true}]',
    ),
    (b"\x03" + struct.pack("<II", 1, 13) + b"\x07" + struct.pack("<i", -70_000), "[-70000]"),
    (b"\x0f\xf6\x05\x05\x02\x80\x7b\x2d", "123.45"),
)  # fmt: skip


@pytest.mark.parametrize(("data", "text"), _DOCUMENTS, ids=range(len(_DOCUMENTS)))
def test_binary_documents_become_text(data: bytes, text: str) -> None:
    assert text == json_text(data)


def test_binary_moments_become_text() -> None:
    day = ((2024 * 13 + 2) << 5 | 29) << 17
    clock = 12 << 12 | 34 << 6 | 56

    def opaque(kind: int, packed: int) -> bytes:
        return b"\x0f" + bytes((kind, 8)) + packed.to_bytes(8, "little", signed=True)

    assert json_text(opaque(10, day << 24)) == '"2024-02-29"'
    assert json_text(opaque(12, (day | clock) << 24 | 7)) == '"2024-02-29 12:34:56.000007"'
    assert json_text(opaque(11, clock << 24)) == '"12:34:56.000000"'
    assert json_text(opaque(11, -(clock << 24))) == '"-12:34:56.000000"'


@pytest.mark.parametrize("data", [b"\x00\x01", b"\x0e", b"\x0c\x05ab\xff", b"\x04\x09", b"\x02\x01\x00\xff\x00"])
def test_a_damaged_document_is_an_error(data: bytes) -> None:
    with pytest.raises(BinaryJsonError):
        json_text(data)


# --- what comes from a server -----------------------------------------------------------------------------------------


def test_a_connection_with_a_high_number_is_waited_for() -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 1100)) as high:
        assert not wait_readable(high, 0)
        other.send(b"x")
        assert wait_readable(high, PATIENCE_S)
