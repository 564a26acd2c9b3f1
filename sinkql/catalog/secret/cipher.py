"""Encrypt the value of CREATE SECRET and the secret literals of statements, and decrypt them at their use."""

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
from sinkql.catalog.secret.value import SecretInput, SecretValue
from sinkql.errors import SinkqlError
from sinkql.keywords import Keywords
from sinkql.printer.redaction import change_literals
from sinkql.storage import files

KEY_VARIABLE = "SINKQL_CATALOG_KEY"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_NEW_KEY = (
    "If no secret is stored yet, create a key with openssl rand -base64 32 and keep it safe. "
    f"Set {KEY_VARIABLE} to the same key on every host."
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
    """Return the key file of a catalog's secrets; None for a catalog in Postgres."""
    return None if isinstance(catalog, ServerUrl) else catalog.with_name(f"{catalog.name}.key")


class Cipher:
    """The encryption of one catalog's secrets, with a key from the environment or a file beside a catalog file.

    Relative paths of secret files start from `project`.
    """

    def __init__(self, catalog: Address, catalog_id: Callable[[], str], project: Path) -> None:
        self._key_path = key_path(catalog)
        self._project = project
        self._catalog_id = catalog_id

    def seal(self, item_id: str, secret_input: SecretInput, *, version: int = 1) -> Sealed:
        """Return the stored form of a secret; create the key file if no key exists."""
        if secret_input.value is None:
            return Sealed(secret_input.kind, version, _write_reference(secret_input))
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and often not needed

        nonce = os.urandom(_NONCE_BYTES)
        bound = self._binding(item_id, version)
        text = AESGCM(self._key(create=True)).encrypt(nonce, secret_input.value.reveal().encode(), bound)
        return Sealed(secret_input.kind, version, nonce=nonce, ciphertext=text)

    def open(self, item_id: str, name: str, sealed: Sealed) -> SecretValue:
        """Return the current value; raise SQ4107 to SQ4112 or SQ412x to SQ414x if it cannot be read."""
        if sealed.reference is not None:
            arguments = _read_reference(sealed.kind, sealed.reference)
            return SecretValue(resolve(name, sealed.kind, arguments, self._project))
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        bound = self._binding(item_id, sealed.version)
        try:
            text = AESGCM(self._key(create=False)).decrypt(sealed.nonce or b"", sealed.ciphertext or b"", bound)
        except (InvalidTag, ValueError):
            raise self._decryption_error(f'secret "{name}"') from None
        return SecretValue(text.decode())

    def seal_text(self, item_id: str, text: str) -> str:
        """Return an item's text encrypted; equal texts of one item have equal results."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, bound = self._key(create=True), self._binding(item_id, _TEXT)
        nonce = hmac.digest(key, bound + b"\0" + text.encode(), "sha256")[:_NONCE_BYTES]
        return base64.urlsafe_b64encode(nonce + AESGCM(key).encrypt(nonce, text.encode(), bound)).decode()

    def open_text(self, item_id: str, name: str, sealed: str) -> str:
        """Return the text that `seal_text` encrypted; raises SQ4107 to SQ4109 and SQ4112."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            data = base64.urlsafe_b64decode(sealed)
            nonce, text = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return AESGCM(self._key(create=False)).decrypt(nonce, text, self._binding(item_id, _TEXT)).decode()
        except (InvalidTag, ValueError):
            raise self._decryption_error(f'item "{name}"') from None

    def _decryption_error(self, what: str) -> SinkqlError:
        where = KEY_VARIABLE if self._key_path is None else f"file {self._key_path} or in {KEY_VARIABLE}"
        return SinkqlError(
            "SQ4108",
            f"cannot decrypt {what} with the current key",
            hint=f"Restore the original key in {where}, or drop {what}.",
        )

    def _binding(self, item_id: str, version: int | str) -> bytes:
        """Return the data that binds the ciphertext to its item and catalog, to detect copies elsewhere."""
        return f"{self._catalog_id()}\n{item_id}\n{version}".encode()

    def _key(self, *, create: bool) -> bytes:
        from_environment = os.environ.get(KEY_VARIABLE)
        if from_environment:
            return _decode_key(from_environment, f"the environment's {KEY_VARIABLE}")
        if self._key_path is None:
            raise SinkqlError(
                "SQ4118",
                f"{KEY_VARIABLE} is not set, but a catalog in Postgres requires it",
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
                hint=f"Restore the file, or set {KEY_VARIABLE}. Without the key, the secrets are unreadable.",
            ) from None


def _write_reference(secret_input: SecretInput) -> str:
    """Return a reference as the catalog stores it: plain if it is always one text."""
    return secret_input.arguments[0] if secret_input.kind in _ONE_TEXT else json.dumps(secret_input.arguments)


def _read_reference(kind: str, written: str) -> list[str]:
    return [written] if kind in _ONE_TEXT else json.loads(written)


def _read_key(path: Path) -> bytes:
    with path.open() as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SinkqlError("SQ4109", f'key file "{path}" is open to other users', hint=f"Run chmod 600 {path}.")
        return _decode_key(file.read().strip(), f'key file "{path}"')


def _create_key(path: Path) -> bytes:
    """Create the key file atomically; if another process created it first, its key is used."""
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
            hint="A key is 32 random bytes in base64. Create one with openssl rand -base64 32.",
        )
    return key


MARK = "<sealed:"
_END = ">"
_Create = TypeVar("_Create", bound=ast.Create)


def hidden(statement: _Create, seal: Callable[[str], str], words: Keywords) -> _Create:
    """Return the statement in its stored form; `seal` returns texts without quotes."""

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
                return literal  # no option accepts it, so it is never stored

    return change_literals(statement, hide, words)  # type: ignore[return-value]  # it is a statement of the same class


def shown(statement: _Create, open_: Callable[[str], str]) -> _Create:
    """Return the statement whose stored form `hidden` returned; raises the errors of `open_`."""

    def show(literal: ast.Value) -> ast.Value:
        if not isinstance(literal, ast.Text) or not literal.value.startswith(MARK):
            return literal
        value = json.loads(open_(literal.value.removeprefix(MARK).removesuffix(_END)))
        if isinstance(value, str):
            return ast.Text(value)
        return ast.Word(ast.Name(tuple(ast.Ident(part) for part in value)))

    return change_literals(statement, show, None)  # type: ignore[return-value]  # as above
