"""The address of a server → its parts; what a connector drafts for it: a connection, and sources of what is there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from sinkql import ast
from sinkql.errors import SinkqlError, one_of
from sinkql.printer.clause import ident, text

_ADDRESS = re.compile(r"(\w+)://(?:([^/?#]*)@)?([^/?#@]*)(?:/([^?#]*))?(?:\?([^#]*))?")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")
PERCENT = "In a user name or a password, write @ : / # ? % as %40 %3A %2F %23 %3F %25."
_EXAMPLES = "postgres://user@host:5432/database, mysql://user@host:3306 or kafka://host:9092"


@dataclass(frozen=True, slots=True)
class Address:
    """An address such as `postgres://ann@host:5432/shop?sslmode=require`; a password may stand in it."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    path: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


def read_address(written: str, schemes: Sequence[str]) -> Address:
    """Read an address; raises SQ4039 for what is none, or of no scheme that is known."""
    found = _ADDRESS.fullmatch(written)
    hint = f"Write {_EXAMPLES}.{f' {PERCENT}' if '@' in written else ''}"
    if found is None:
        raise SinkqlError("SQ4039", "the address of the server is not a URL", hint=hint)
    scheme, login, places, path, query = found.groups()
    if scheme.lower() not in schemes:
        known = f"Write {one_of(sorted(f'{each}://' for each in schemes))}."
        raise SinkqlError("SQ4039", f"servers at {scheme}:// are not known", hint=known)
    hosts = [_HOST.fullmatch(each) for each in places.split(",")]
    if not all(hosts) or "@" in (path or ""):  # a password with a slash has its end there
        raise SinkqlError("SQ4039", "the address has no host", hint=hint)
    user, _, password = (login or "").partition(":")
    return Address(
        scheme.lower(),
        tuple((each[1], int(each[2]) if each[2] else None) for each in hosts if each is not None),
        unquote(path or ""),
        unquote(user) or None,
        unquote(password) or None,
        dict(parse_qsl(query or "")),
    )


@dataclass(frozen=True, slots=True)
class ConnectionScaffold:
    """A connection to write: its type, a name for it, its options as SQL, and what it needs of a secret.

    `password` is the option that takes the password, `variable` the environment's variable that programs for such
    servers read it from; empty where nobody logs in. `schema` is the one whose tables alone are meant, empty for all.
    """

    kind: str
    name: str
    options: tuple[str, ...]
    password: str
    variable: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class SourceScaffold:
    """A source to write: of a topic, say, or of a database, whose tables are written one by one.

    Each of `clauses` is all that follows CREATE SOURCE name, columns too; the first that can be planned is taken. None:
    it is left out, for the reason in `notes`, which become comments. `found` is what the server calls it. Without a
    source that is the `whole` there is nothing to write.
    """

    name: str
    found: str
    clauses: tuple[str, ...]
    notes: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """What is to be drafted: of these names, of all without any; the SQL names of a connection, and of a registry's.

    Of a `schema`, only its tables are meant. `passed` gets the names that were asked for and are not wanted.
    """

    connection: str
    registry: str | None = None
    names: tuple[str, ...] = ()
    schema: str = ""
    passed: list[str] = field(default_factory=list)

    def takes(self, name: str) -> bool:
        """Tell whether something of a name is wanted."""
        if not self.names or name in self.names:
            return True
        self.passed.append(name)
        return False


def option(label: str, value: str | int) -> str:
    """Return an option as SQL writes it."""
    return f"{label} {value if isinstance(value, int) else text(value)}"


def relation_name(found: str) -> str:
    """Return a name for a relation that needs no quotes, by what a server calls it."""
    plain = re.sub(r"\W+", "_", found, flags=re.ASCII).strip("_").lower()
    return ident(ast.Ident(plain if plain and not plain[0].isdigit() else f"t_{plain}"))
