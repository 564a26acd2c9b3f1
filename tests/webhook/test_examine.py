"""`sinkql doctor` on webhooks: whether they can listen, and which process uses their port."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sinkql.cli.main import run_command
from sinkql.connectors.webhook.server import WebhookServers
from support.port import free_ports
from webhook.streams import open_stream, source

Doctor = Callable[[str], dict[str, tuple[str, str]]]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    monkeypatch.chdir(tmp_path)

    def run(options: str) -> dict[str, tuple[str, str]]:
        """Return the results for a source by name: the state and the fix."""
        Path("script.sql").write_text(
            f"CREATE SECRET k AS 'no'; CREATE TABLE s FROM WEBHOOK BODY FORMAT TEXT WITH ({options});"
        )
        capsys.readouterr()
        code = run_command(["doctor", "-f", "script.sql", "--output", "json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert code == (4 if any(each["state"] == "wrong" for each in found) else 0)
        return {each["name"].removeprefix("s: "): (each["state"], each["fix"] or "") for each in found}

    return run


def test_a_port_that_is_free_or_taken(doctor: Doctor, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    name, listen = f"port {port}", f"PORT = {port}"
    assert doctor(listen) == {name: ("ok", "")}
    with closing(socket.create_server(("127.0.0.1", port))) as other:

        def hang_up() -> None:
            other.accept()[0].close()

        answering = threading.Thread(target=hang_up)
        answering.start()
        assert doctor(listen)[name][0] == "warning"
        answering.join()
    with WebhookServers() as listeners, open_stream(source(tmp_path, port, "t"), listeners):
        found = doctor(listen)[name]
        assert (found[0], "SET (PORT" in found[1]) == ("warning", True), "another source listens there"
        with open_stream(source(tmp_path, port), listeners):
            assert doctor(listen) == {name: ("ok", "")}


def test_places_where_nobody_can_listen(doctor: Doctor) -> None:
    (port,) = free_ports(1)
    found = doctor(f"ADDRESS = '192.0.2.1', PORT = {port}")
    assert found[f"port {port}"] == (
        "wrong",
        "Run ALTER SOURCE … SET (ADDRESS = '0.0.0.0'), or an address that this machine has.",
    )
    assert found["check"][0] == "warning"


def test_a_certificate_that_is_none(doctor: Doctor) -> None:
    (port,) = free_ports(1)
    assert doctor(f"PORT = {port}, SSL CERTIFICATE = SECRET k, SSL KEY = SECRET k")["certificate"][0] == "wrong"
