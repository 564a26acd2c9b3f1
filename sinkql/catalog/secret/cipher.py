"""What CREATE SECRET gives → what is stored of it, encrypted; what is stored → the value, at the moment of its use.

A statement's literals in options that take secrets ↔ the same, encrypted: what the catalog file's text shows.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sinkql import ast
from sinkql.catalog.address import Address, ServerUrl
from sinkql.catalog.secret.providers import resolve
from sinkql.catalog.secret.value import Given, SecretValue
from sinkql.errors import SinkqlError
from sinkql.keywords import Keywords
from sinkql.printer.redaction import change_literals
from sinkql.storage import files

KEY_VARIABLE = "SINKQL_CATALOG_KEY"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_NEW_KEY = (
    f"If no secret is stored yet, make a key with openssl rand -base64 32 and keep it safe; set {KEY_VARIABLE} to the "
    "same key on every host."
)
_TEXT = "text"
_ONE_TEXT = ("env_var", "file")


@dataclass(frozen=True, slots=True)
class Sealed:
    """The stored form of a secret: a plain reference, or an encrypted literal."""

    kind: str
    version: int
    reference: str | None = None
    nonce: bytes | None = None
    ciphertext: bytes | None = field(default=None, repr=False)


def key_path(catalog: Address) -> Path | None:
    """Return the file that the key of a catalog's secrets is in, if it is in one; None for a catalog in Postgres."""
    return None if isinstance(catalog, ServerUrl) else catalog.with_name(f"{catalog.name}.key")


class Cipher:
    """Seals and opens the secrets of one catalog; the key is in the environment, or in a file beside a catalog file.

    Relative paths of files that secrets are in begin in `project`.
    """

    def __init__(self, catalog: Address, catalog_id: Callable[[], str], project: Path) -> None:
        self._key_path = key_path(catalog)
        self._project = project
        self._catalog_id = catalog_id

    def seal(self, item_id: str, given: Given, *, version: int = 1) -> Sealed:
        """Return what to store; creates the key file if there is no key yet."""
        if given.value is None:
            return Sealed(given.kind, version, _written(given))
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and often not needed

        nonce = os.urandom(_NONCE_BYTES)
        bound = self._bound(item_id, version)
        text = AESGCM(self._key(create=True)).encrypt(nonce, given.value.reveal().encode(), bound)
        return Sealed(given.kind, version, nonce=nonce, ciphertext=text)

    def open(self, item_id: str, name: str, sealed: Sealed) -> SecretValue:
        """Return the value now: raises SQ4107 to SQ4112 and SQ412x to SQ414x where it cannot be had."""
        if sealed.reference is not None:
            arguments = _arguments(sealed.kind, sealed.reference)
            return SecretValue(resolve(name, sealed.kind, arguments, self._project))
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        bound = self._bound(item_id, sealed.version)
        try:
            text = AESGCM(self._key(create=False)).decrypt(sealed.nonce or b"", sealed.ciphertext or b"", bound)
        except (InvalidTag, ValueError):
            raise self._closed(f'secret "{name}"') from None
        return SecretValue(text.decode())

    def seal_text(self, item_id: str, text: str) -> str:
        """Return a text of an item, encrypted; the same text of the same item gives the same."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, bound = self._key(create=True), self._bound(item_id, _TEXT)
        nonce = hmac.digest(key, bound + b"\0" + text.encode(), "sha256")[:_NONCE_BYTES]
        return base64.urlsafe_b64encode(nonce + AESGCM(key).encrypt(nonce, text.encode(), bound)).decode()

    def open_text(self, item_id: str, name: str, sealed: str) -> str:
        """Return the text that `seal_text` took; raises SQ4107 to SQ4109 and SQ4112."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            data = base64.urlsafe_b64decode(sealed)
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return AESGCM(self._key(create=False)).decrypt(nonce, text, self._bound(item_id, _TEXT)).decode()
        except (InvalidTag, ValueError):
            raise self._closed(f'item "{name}"') from None

    def _closed(self, what: str) -> SinkqlError:
        where = KEY_VARIABLE if self._key_path is None else f"file {self._key_path} or the {KEY_VARIABLE}"
        return SinkqlError(
            "SQ4108",
            f"cannot decrypt {what} with the current key",
            hint=f"Restore the {where} that it was created with, or drop it.",
        )

    def _bound(self, item_id: str, version: int | str) -> bytes:
        """Return what the ciphertext is bound to, so that moving it to another item or catalog shows."""
        return f"{self._catalog_id()}\n{item_id}\n{version}".encode()

    def _key(self, *, create: bool) -> bytes:
        from_environment = os.environ.get(KEY_VARIABLE)
        if from_environment:
            return _decode_key(from_environment, f"the environment's {KEY_VARIABLE}")
        if self._key_path is None:
            raise SinkqlError(
                "SQ4118",
                f"{KEY_VARIABLE} is not set, and a catalog in Postgres has its key nowhere else",
                hint=_NEW_KEY if create else f"Set {KEY_VARIABLE} to the key that the secrets were stored with.",
            )
        try:
            return _read_key(self._key_path)
        except FileNotFoundError:
            if create:
                return _create_key(self._key_path)
            raise SinkqlError(
                "SQ4107",
                f'key file "{self._key_path}" of the catalog is missing',
                hint=f"Put it back, or set {KEY_VARIABLE}; without it the secrets of the catalog cannot be read.",
            ) from None


def _written(given: Given) -> str:
    """Return a reference as the catalog file keeps it: plain where it is always one text."""
    return given.arguments[0] if given.kind in _ONE_TEXT else json.dumps(given.arguments)


def _arguments(kind: str, written: str) -> list[str]:
    return [written] if kind in _ONE_TEXT else json.loads(written)


def _read_key(path: Path) -> bytes:
    with path.open() as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SinkqlError("SQ4109", f'key file "{path}" is open to other users', hint=f"Run chmod 600 {path}.")
        return _decode_key(file.read().strip(), f'key file "{path}"')


def _create_key(path: Path) -> bytes:
    """Create the key file whole or not at all; where another process was quicker, its key holds."""
    with suppress(FileExistsError):
        files.create_new(path, base64.b64encode(os.urandom(_KEY_BYTES)) + b"\n", private=True)
    return _read_key(path)


def _decode_key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text) if len(text) == 2 * _KEY_BYTES else base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SinkqlError(
            "SQ4112",
            f"{where} does not contain a valid key",
            hint="A key is 32 random bytes, as base64: openssl rand -base64 32.",
        )
    return key


MARK = "<sealed:"
_END = ">"
_Create = TypeVar("_Create", bound=ast.Create)


def hidden(statement: _Create, seal: Callable[[str], str], words: Keywords) -> _Create:
    """Return the statement as it is stored; what `seal` returns is text without quotes."""

    def hide(literal: ast.Value) -> ast.Value:
        match literal:
            case ast.Text(value=value) if value.startswith(MARK):
                return literal
            case ast.Text(value=value):
                return ast.Text(f"{MARK}{seal(json.dumps(value))}{_END}")
            case ast.Word(name=name):
                parts = [part.value for part in name.parts]
                return ast.Text(f"{MARK}{seal(json.dumps(parts))}{_END}")
            case _:
                return literal  # no option takes it, so no such statement is stored

    return change_literals(statement, hide, words)  # type: ignore[return-value]  # it is a statement of the same class


def shown(statement: _Create, open_: Callable[[str], str]) -> _Create:
    """Return the statement that `hidden` made into this one; raises what `open_` does."""

    def show(literal: ast.Value) -> ast.Value:
        if not isinstance(literal, ast.Text) or not literal.value.startswith(MARK):
            return literal
        found = json.loads(open_(literal.value.removeprefix(MARK).removesuffix(_END)))
        if isinstance(found, str):
            return ast.Text(found)
        return ast.Word(ast.Name(tuple(ast.Ident(part) for part in found)))

    return change_literals(statement, show, None)  # type: ignore[return-value]  # as above
