"""A stub of a schema registry, which answers SinkQL's requests over HTTP as Confluent's does."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


@dataclass
class StubRegistry:
    """The contents and settings of the stub, which may change while it runs."""

    url: str = ""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    statuses: list[int] = field(default_factory=list)
    """Error statuses of the next replies."""
    hang_up: int = 0
    """How many of the next requests get no reply."""
    asked: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Subjects that refuse new schemas."""
    levels: dict[str, str] = field(default_factory=dict)
    """The compatibility levels of subjects."""

    def register(
        self,
        subject: str,
        schema: str | dict[str, Any] | list[Any],
        kind: str = "AVRO",
        references: tuple[tuple[str, str, int], ...] = (),
    ) -> int:
        """Add a version of a subject; return the schema's id. References are names, subjects and versions."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        found: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            found["schemaType"] = kind
        if references:
            found["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in references]
        id_ = next((each for each, other in self.schemas.items() if other == found), len(self.schemas) + 1)
        self.schemas[id_] = found
        self.subjects.setdefault(subject, []).append(id_)
        return id_

    def answer(self, path: str) -> tuple[int, Any]:
        """Return the status and the body for a path."""
        match [unquote(each) for each in path.strip("/").split("/")]:
            case ["subjects"]:
                return 200, sorted(self.subjects)
            case ["schemas", "ids", id_]:
                found = self.schemas.get(int(id_))
                return (404, _error(40403, f"Schema {id_} not found")) if found is None else (200, found)
            case ["subjects", subject, "versions", version]:
                ids = self.subjects.get(subject)
                if ids is None:
                    return 404, _error(40401, f"Subject '{subject}' not found.")
                place = len(ids) if version == "latest" else int(version)
                if not 0 < place <= len(ids):
                    return 404, _error(40402, f"Version {version} not found.")
                known = ids[place - 1]
                return 200, {"subject": subject, "version": place, "id": known, **self.schemas[known]}
        return 404, _error(404, "HTTP 404 Not Found")


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: StubRegistry

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Log nothing."""

    def do_GET(self) -> None:
        stub = self.stub
        stub.asked.append(self.path)
        if stub.hang_up:
            stub.hang_up -= 1
            self.close_connection = True
            return
        if stub.statuses:
            status = stub.statuses.pop(0)
            self._send(status, _error(status * 100 + 1, "as a test has it"))
        elif stub.login is not None and self.headers.get("Authorization") != _basic(stub.login):
            self._send(401, _error(401, "Unauthorized"))
        else:
            self._send(*stub.answer(self.path))

    def do_POST(self) -> None:
        stub, body = self.stub, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match [unquote(each) for each in self.path.strip("/").split("/")]:
            case ["subjects", subject, "versions"] if subject in stub.refused:
                self._send(409, _error(409, "Schema being registered is incompatible with an earlier schema"))
            case ["subjects", subject, "versions"]:
                self._send(200, {"id": stub.register(subject, body["schema"])})
            case _:
                self._send(404, _error(404, "HTTP 404 Not Found"))

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, subject = self.path.strip("/").split("/")
        self.stub.levels[unquote(subject)] = body["compatibility"]
        self._send(200, body)

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + b64encode(":".join(login).encode()).decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections."""


@contextmanager
def stub_registry(identity: Path | None = None, clients: Path | None = None) -> Iterator[StubRegistry]:
    """Run a stub until the block ends. `identity` enables TLS; with `clients`, it requires client certificates."""
    stub = StubRegistry()
    handler = type("Handler", (_Handler,), {"stub": stub})
    with _Server(("127.0.0.1", 0), handler) as server:
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity)
            if clients is not None:
                context.load_verify_locations(clients)
                context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True)
        stub.url = f"http{'s' if identity is not None else ''}://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield stub
        server.shutdown()
