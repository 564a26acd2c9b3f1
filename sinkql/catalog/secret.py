"""A CREATE SECRET's value → what is stored of it, encrypted; what is stored → the value, at the moment of its use."""

from __future__ import annotations

import base64
import os
import secrets as random
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.mask import REDACTED

KEY_VARIABLE = "SINKQL_CATALOG_KEY"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class SecretValue:
    """Hold a secret's text, shown by `reveal` alone: not printed, not formatted, not pickled, not in JSON."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; for the call that needs it, never to be kept."""
        return self._text

    def __repr__(self) -> str:
        return f"SecretValue({REDACTED})"

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret's value is not formatted into text: reveal it where it is used")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret's value is not pickled: send the secret's name")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and random.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> NoReturn:
        raise TypeError("a secret's value is not hashed")


@dataclass(frozen=True, slots=True)
class Given:
    """Hold what CREATE SECRET gives: a literal's value, or the kind (env_var, file) and text of a reference."""

    kind: str
    value: SecretValue | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """Hold what is stored of a secret: a reference as it is, a literal encrypted."""

    kind: str
    version: int
    reference: str | None = None
    nonce: bytes | None = None
    ciphertext: bytes | None = field(default=None, repr=False)


def given(value: ast.SecretValue) -> Given:
    """Return what a planned CREATE SECRET's value says."""
    match value:
        case ast.Text():
            return Given("literal", SecretValue(value.value))
        case ast.Concat():
            parts = [part.value for part in value.parts if isinstance(part, ast.Text)]
            return Given("literal", SecretValue("".join(parts)))
        case ast.Call():
            return Given(value.function, reference=value.arguments[0].value)


class Vault:
    """Seal and open secrets of one catalog, under a key from the environment or from a file beside the catalog."""

    def __init__(self, catalog: Path, catalog_id: Callable[[], str]) -> None:
        self._key_path = catalog.with_name(f"{catalog.name}.key")
        self._catalog_id = catalog_id

    def seal(self, item_id: str, given: Given, *, version: int = 1) -> Sealed:
        """Return what to store; creates the key file if there is no key yet."""
        if given.value is None:
            return Sealed(given.kind, version, given.reference)
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and often not needed

        nonce = os.urandom(_NONCE_BYTES)
        bound = self._bound(item_id, version)
        text = AESGCM(self._key(create=True)).encrypt(nonce, given.value.reveal().encode(), bound)
        return Sealed(given.kind, version, nonce=nonce, ciphertext=text)

    def open(self, item_id: str, name: str, sealed: Sealed) -> SecretValue:
        """Return the value now: raises SQ4107 to SQ4112 where key, variable or file do not give it."""
        reference = sealed.reference or ""
        if sealed.kind == "env_var":
            return SecretValue(_from_environment(name, reference))
        if sealed.kind == "file":
            return SecretValue(_from_file(name, reference))
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        bound = self._bound(item_id, sealed.version)
        try:
            text = AESGCM(self._key(create=False)).decrypt(sealed.nonce or b"", sealed.ciphertext or b"", bound)
        except (InvalidTag, ValueError):
            raise SinkqlError(
                "SQ4108",
                f'secret "{name}" does not open with the key at hand',
                hint=f"Put back the file {self._key_path} or the {KEY_VARIABLE} of its creation, or drop the secret.",
            ) from None
        return SecretValue(text.decode())

    def _bound(self, item_id: str, version: int) -> bytes:
        """Return what the ciphertext is bound to, so that moving it to another secret or catalog shows."""
        return f"{self._catalog_id()}\n{item_id}\n{version}".encode()

    def _key(self, *, create: bool) -> bytes:
        from_environment = os.environ.get(KEY_VARIABLE)
        if from_environment:
            return _decode_key(from_environment, f"the environment's {KEY_VARIABLE}")
        try:
            return _read_key(self._key_path)
        except FileNotFoundError:
            if create:
                return _create_key(self._key_path)
            raise SinkqlError(
                "SQ4107",
                f'key file "{self._key_path}" of the catalog is missing',
                hint=f"Put it back, or set {KEY_VARIABLE}; without it the catalog's secrets stay closed.",
            ) from None


def _read_key(path: Path) -> bytes:
    with path.open() as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SinkqlError(
                "SQ4109", f'key file "{path}" is open to other users', hint=f"Close it with chmod 600 {path}."
            )
        return _decode_key(file.read().strip(), f'key file "{path}"')


def _create_key(path: Path) -> bytes:
    """Create the key file whole or not at all; where another process was quicker, its key holds."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(base64.b64encode(os.urandom(_KEY_BYTES)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    return _read_key(path)


def _decode_key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text) if len(text) == 2 * _KEY_BYTES else base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SinkqlError(
            "SQ4112", f"{where} holds no key", hint="A key is 32 random bytes, as base64: openssl rand -base64 32."
        )
    return key


def _from_environment(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise SinkqlError(
            "SQ4110",
            f'environment variable {variable} of secret "{name}" is not set',
            hint=f"Set it before the job starts: export {variable}=….",
        )
    return value


def _from_file(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SinkqlError(
            "SQ4111",
            f'file "{path}" of secret "{name}" cannot be read',
            detail=reason,
            hint="Check its path and permissions; a relative path starts at the working folder.",
        ) from None
