"""Addresses of brokers in messages of Kafka's protocol, in each version with a different layout."""

from __future__ import annotations

import struct

import pytest

from sinkql.connectors.kafka import ssh_proxy

_TAGS = b"\1\7\2xy"
"""One tagged field with an unknown tag."""


def _text(text: str | None, *, compact: bool) -> bytes:
    if text is None:
        return b"\0" if compact else b"\xff\xff"
    return (bytes([len(text) + 1]) if compact else struct.pack(">h", len(text))) + text.encode()


def _metadata(version: int, *brokers: ssh_proxy.Address) -> bytes:
    compact = version >= 9
    found = [_TAGS] if compact else []
    found.append(struct.pack(">i", 5) if version >= 3 else b"")
    found.append(bytes([len(brokers) + 1]) if compact else struct.pack(">i", len(brokers)))
    for number, (host, port) in enumerate(brokers):
        found += [struct.pack(">i", number), _text(host, compact=compact), struct.pack(">i", port)]
        found.append(_text("rack" if number else None, compact=compact) if version >= 1 else b"")
        found.append(_TAGS if compact else b"")
    return b"".join([*found, b"topics"])


def _coordinator(version: int, *brokers: ssh_proxy.Address) -> bytes:
    compact = version >= 3
    found = [_TAGS if compact else b"", struct.pack(">i", 5) if version >= 1 else b""]
    if version >= 4:
        found.append(bytes([len(brokers) + 1]))
    for host, port in brokers:
        if version >= 4:
            found.append(_text("group", compact=True))
        else:
            found += [b"\0\0", _text(None, compact=compact) if version >= 1 else b""]
        found += [b"\0\0\0\1", _text(host, compact=compact), struct.pack(">i", port)]
        found += [b"\0\0", _text("no", compact=True), _TAGS] if version >= 4 else []
    return b"".join([*found, b"rest"])


@pytest.mark.parametrize(
    ("api", "version"), [*((3, version) for version in range(13)), *((10, version) for version in range(5))]
)
def test_brokers_of_an_answer_get_other_addresses(api: int, version: int) -> None:
    made = _metadata if api == 3 else _coordinator
    old = [("a", 1), ("x" * 200, 9092)] if api == 3 and version < 9 else [("a", 1), ("bb", 9092)]
    old = old[:1] if api == 10 and version < 4 else old
    new = [("127.0.0.1", 40_000 + number) for number in range(len(old))]
    answer = made(version, *old)
    assert old == ssh_proxy.addresses_in((api, version), answer)
    assert made(version, *new) == ssh_proxy.rewrite((api, version), answer, dict(zip(old, new, strict=True)))


def test_a_long_name_has_its_length_in_several_bytes() -> None:
    host = "x" * 200
    answer = ssh_proxy.rewrite((3, 9), _metadata(9, ("a", 1)), {("a", 1): (host, 2)})
    assert [(host, 2)] == ssh_proxy.addresses_in((3, 9), answer)
    assert answer.endswith(b"topics")


@pytest.mark.parametrize("version", [0, 3])
def test_clients_are_told_of_no_version_that_names_brokers_elsewhere(version: int) -> None:
    compact = version >= 3

    def answer(*entries: tuple[int, int, int]) -> bytes:
        count = bytes([len(entries) + 1]) if compact else struct.pack(">i", len(entries))
        return b"\0\0" + count + b"".join(
            struct.pack(">hhh", *each) + (_TAGS if compact else b"") for each in entries
        )  # fmt: skip

    found = ssh_proxy.rewrite((18, version), answer((0, 3, 13), (1, 4, 12), (3, 0, 13), (17, 0, 1)), {})
    assert answer((0, 3, 9), (1, 4, 12), (3, 0, 12), (17, 0, 1)) == found
    unknown = b"\0\x23" + answer((18, 0, 4))[2:]
    assert unknown == ssh_proxy.rewrite((18, version), unknown, {})


def test_only_answers_that_name_brokers_are_looked_into() -> None:
    requests = ssh_proxy.PendingRequests()
    for correlation, api in enumerate((0, 3, 1)):
        requests.add(struct.pack(">hhi", api, 9, correlation))
    found = [requests.pop(struct.pack(">i", correlation)) for correlation in (0, 1, 1, 2)]
    assert found == [None, (3, 9), None, None]
