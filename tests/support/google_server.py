"""Simulate Google in a separate process: tokens of service accounts, BigLake's catalog, and Cloud Storage.

Cloud Storage is gcp-storage-emulator behind a check of tokens. The catalog keeps its tables in memory and writes their
metadata to the bucket. The program's argument is the public key of the account. It prints its port. `/control` changes
the rules, and returns the tokens and requests.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from functools import partial
from http.server import ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import update_table_metadata

EMAIL, PROJECT, BUCKET = "writer@tests.iam.gserviceaccount.com", "tests", "lake"
CATALOG = "/iceberg/v1/restcatalog/v1/"
_PREFIX = f"projects/{PROJECT}/catalogs/{BUCKET}/"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


RULES: dict[str, Any] = {
    "refuse": False,
    "vend": True,
    "open": False,
    "mark": "",
    "life": 3600,
    "expiry": "gcs.oauth2.token-expires-at",
}
"""Settings that tests change: refuse to issue tokens, issue tokens for files, let requests to the catalog pass without
a token, a text in each token, seconds of validity, and the property by which the catalog names the expiry."""


@dataclass
class State:
    """The state of the server; tests change `rules`."""

    key: RSAPublicKey
    storage: Storage
    port: int = 0
    rules: dict[str, Any] = field(default_factory=RULES.copy)
    tokens: list[str] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    vended: set[str] = field(default_factory=set)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)
    tables: dict[tuple[str, str], tuple[str, TableMetadata]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


class RefusedError(Exception):
    """An error response: its status, type and message."""


class Handler(RequestHandler):  # type: ignore[misc]  # the emulator has no types
    state: State

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class's name
        pass

    def answer(self) -> None:
        path = urlsplit(self.path).path
        token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if path == "/control":
            return self._control()
        if path == "/token":
            return self._reply(*self._token())
        state = self.state
        state.seen.append((self.command, path, token))
        catalog = path.startswith(CATALOG)
        known = state.valid if catalog else state.valid | state.vended
        if token not in known and not (catalog and state.rules["open"]):
            self._body()
            # Google's format of errors, which is not Iceberg's
            error = {"code": 401, "message": "Request had invalid credentials.", "status": "UNAUTHENTICATED"}
            return self._reply(401, {"error": error})
        if not catalog:
            with state.lock:
                return getattr(super(), f"do_{self.command}")()  # type: ignore[no-any-return]  # and here
        try:
            with state.lock:
                found = self._catalog(path.removeprefix(CATALOG), self._body())
        except RefusedError as refused:
            status, type_, message = refused.args
            return self._reply(status, {"error": {"code": status, "type": type_, "message": message}})
        return self._reply(200 if found is not None else 204, found)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = answer  # noqa: N815  # the base class's names

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))  # type: ignore[no-any-return]  # and here

    def _reply(self, status: int, found: Any) -> None:
        body = b"" if found is None or self.command == "HEAD" else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _control(self) -> None:
        state = self.state
        if self.command == "POST":
            rules = json.loads(self._body())
            if rules.pop("revoke", False):
                state.valid.clear()
                state.vended.clear()
            state.rules |= rules
        self._reply(200, {"tokens": state.tokens, "vended": sorted(state.vended), "seen": state.seen})

    # --- tokens --------------------------------------------------------------------------------------------------

    def _token(self) -> tuple[int, Any]:
        """Issue a token for an assertion signed with the account's key, as in RFC 7523."""
        state = self.state
        signed, _, signature = parse_qs(self._body().decode())["assertion"][0].rpartition(".")
        claims = json.loads(_decode(signed.partition(".")[2]))
        try:
            state.key.verify(_decode(signature), signed.encode(), PKCS1v15(), SHA256())
        except InvalidSignature:
            return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        if state.rules["refuse"] or claims["iss"] != EMAIL:
            return 400, {"error": "invalid_grant", "error_description": "Invalid grant: account not found"}
        assert claims["scope"] == _SCOPE, claims
        assert claims["exp"] > time.time(), claims
        token = f"ya29.{state.rules['mark']}{len(state.tokens)}-{signature[:20]}"
        state.tokens.append(token)
        state.valid.add(token)
        return 200, {"access_token": token, "expires_in": state.rules["life"], "token_type": "Bearer"}

    # --- catalog -------------------------------------------------------------------------------------------------

    def _catalog(self, path: str, body: bytes) -> Any:
        state = self.state
        if self.headers.get("x-goog-user-project") != PROJECT and not state.rules["open"]:
            raise RefusedError(403, "ForbiddenException", "the request names no project that it is counted to")
        if path == "config":
            assert parse_qs(urlsplit(self.path).query) == {"warehouse": [f"gs://{BUCKET}"]}, self.path
            host = f"http://127.0.0.1:{state.port}"
            return {"defaults": {"gcs.service.host": host}, "overrides": {"prefix": _PREFIX.rstrip("/")}}
        assert path.startswith(_PREFIX), path
        parts = [unquote(part) for part in path.removeprefix(_PREFIX).split("/")]
        match self.command, parts:
            case "GET", ["namespaces"]:
                return {"namespaces": [[name] for name in sorted(state.namespaces)]}
            case "POST", ["namespaces"]:
                (name,) = json.loads(body)["namespace"]
                state.namespaces.add(name)
                return {"namespace": [name], "properties": {}}
            case _, ["namespaces", name, *_] if name not in state.namespaces:
                raise RefusedError(404, "NoSuchNamespaceException", f"namespace {name} does not exist")
            case "GET" | "HEAD", ["namespaces", name]:
                return {"namespace": [name], "properties": {}}
            case "GET", ["namespaces", name, "tables"]:
                named = [{"namespace": [of], "name": table} for of, table in sorted(state.tables) if of == name]
                return {"identifiers": named}
            case "POST", ["namespaces", name, "tables"]:
                return self._create(name, json.loads(body))
            case _, ["namespaces", name, "tables", table] if (name, table) not in state.tables:
                raise RefusedError(404, "NoSuchTableException", f"table {name}.{table} does not exist")
            case "GET" | "HEAD", ["namespaces", name, "tables", table]:
                return self._loaded((name, table))
            case "POST", ["namespaces", name, "tables", table]:
                return self._commit((name, table), body)
        raise RefusedError(406, "UnsupportedOperationException", f"{self.command} {path}")

    def _create(self, namespace: str, wanted: dict[str, Any]) -> Any:
        identifier = namespace, wanted["name"]
        if identifier in self.state.tables:
            raise RefusedError(409, "AlreadyExistsException", "the table exists")
        order = wanted.get("write-order")
        metadata = new_table_metadata(
            Schema.model_validate(wanted["schema"]),
            PartitionSpec.model_validate(wanted.get("partition-spec") or {"spec-id": 0, "fields": []}),
            SortOrder.model_validate(order) if order else UNSORTED_SORT_ORDER,
            f"gs://{BUCKET}/{namespace}/{wanted['name']}",
            wanted.get("properties") or {},
        )
        self._keep(identifier, metadata, 0)
        return self._loaded(identifier)

    def _commit(self, identifier: tuple[str, str], body: bytes) -> Any:
        request = CommitTableRequest.model_validate_json(body)
        location, metadata = self.state.tables[identifier]
        try:
            for requirement in request.requirements:
                requirement.validate(metadata)
        except CommitFailedException as error:
            raise RefusedError(409, "CommitFailedException", str(error)) from None
        number = int(location.rpartition("/")[2].partition("-")[0]) + 1
        self._keep(identifier, update_table_metadata(metadata, request.updates, metadata_location=location), number)
        return self._loaded(identifier)

    def _keep(self, identifier: tuple[str, str], metadata: TableMetadata, number: int) -> None:
        location = f"{metadata.location}/metadata/{number:05}-{metadata.table_uuid}.metadata.json"
        content = metadata.model_dump_json().encode()
        name = location.removeprefix(f"gs://{BUCKET}/")
        self.state.storage.create_file(BUCKET, name, content, _resource(name, len(content)))
        self.state.tables[identifier] = location, metadata

    def _loaded(self, identifier: tuple[str, str]) -> Any:
        location, metadata = self.state.tables[identifier]
        found: dict[str, Any] = {
            "metadata-location": location,
            "metadata": json.loads(metadata.model_dump_json()),
            "config": {},
        }
        if self.headers.get("x-iceberg-access-delegation") and self.state.rules["vend"]:
            token = f"ya29.vended-{len(self.state.vended)}"
            self.state.vended.add(token)
            end = str(int((time.time() + self.state.rules["life"]) * 1000))
            told = self.state.rules["expiry"]
            config = {"gcs.oauth2.token": token, **({told: end} if told else {})}
            found["storage-credentials"] = [{"prefix": f"gs://{BUCKET}", "config": config}]
        return found


def _resource(name: str, size: int) -> dict[str, Any]:
    """Return the metadata of an object in Cloud Storage."""
    stamp = str(time.time_ns() // 1000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return {
        "kind": "storage#object", "name": name, "bucket": BUCKET, "size": str(size), "generation": stamp,
        "metageneration": "1", "contentType": "application/json", "timeCreated": moment, "updated": moment,
        "crc32c": "", "md5Hash": "", "etag": stamp, "id": f"{BUCKET}/{quote(name)}/{stamp}",
    }  # fmt: skip


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def main() -> None:
    key = load_pem_public_key(sys.argv[1].encode())
    assert isinstance(key, RSAPublicKey)
    storage = Storage(use_memory_fs=True)
    storage.create_bucket(BUCKET, {})
    state = State(key, storage)
    handler = type("StateHandler", (Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, storage))
    server.daemon_threads = True
    state.port = server.server_address[1]
    print(state.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
