"""The ports of Spark's Java process accept no message from other users of the machine."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_LISTENS = "0A"
_ENDPOINTS = ("HeartbeatReceiver", "LocalSchedulerBackendEndpoint", "BlockManagerMaster", "endpoint-verifier")
_REQUEST = 3


def test_no_port_of_spark_takes_a_message_without_the_secret(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    java = jvm.java.lang.ProcessHandle.current().pid()
    ports = list(_ports(java))
    assert len(ports) >= 3  # Python's calls, messages, blocks
    answers = [_ask(port, endpoint) for port in ports for endpoint in _ENDPOINTS]
    assert sum(b"SaslMessage" in answer for answer in answers) >= 2 * len(_ENDPOINTS)
    assert [answer for answer in answers if answer and b"SaslMessage" not in answer and b"!x" not in answer] == []


def _ports(process: int) -> Iterator[int]:
    """Yield the ports on which a process listens."""
    sockets = set()
    for handle in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            sockets.add(os.readlink(handle))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = line.split()
            if state == _LISTENS and f"socket:[{line.split()[9]}]" in sockets:
                yield int(local.rpartition(":")[2], 16)


def _ask(port: int, endpoint: str) -> bytes:
    """Send a serialized object to an endpoint of Spark; return the reply."""
    object_ = b"\xac\xed\x00\x05\x74" + _text("hello")
    body = b"\0\1" + _text("127.0.0.1") + struct.pack(">i", port) + _text(endpoint) + object_
    frame = struct.pack(">BqI", _REQUEST, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, suppress(ConnectionResetError):
        connection.sendall(struct.pack(">q", len(frame) + 8) + frame)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer
    return b""


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
