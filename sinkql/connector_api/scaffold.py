"""Parse the address of a server, and describe the statements to draft for it: a connection and sources."""

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
    """An address such as `postgres://ann@host:5432/shop?sslmode=require`. It may contain a password."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    path: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


def read_address(written: str, schemes: Sequence[str]) -> Address:
    """Parse an address; raises SQ4039 if it is not valid or its scheme is unknown."""
    match = _ADDRESS.fullmatch(written)
    hint = f"Write {_EXAMPLES}.{f' {PERCENT}' if '@' in written else ''}"
    if match is None:
        raise SinkqlError("SQ4039", "the address of the server is not a URL", hint=hint)
    scheme, login, authority, path, query = match.groups()
    if scheme.lower() not in schemes:
        scheme_hint = f"Write {one_of(sorted(f'{known_scheme}://' for known_scheme in schemes))}."
        raise SinkqlError("SQ4039", f"servers at {scheme}:// are not supported", hint=scheme_hint)
    hosts = [_HOST.fullmatch(host) for host in authority.split(",")]
    if not all(hosts) or "@" in (path or ""):  # an unescaped slash in a password ends the authority
        raise SinkqlError("SQ4039", "the address has no host", hint=hint)
    user, _, password = (login or "").partition(":")
    return Address(
        scheme.lower(),
        tuple((host[1], int(host[2]) if host[2] else None) for host in hosts if host is not None),
        unquote(path or ""),
        unquote(user) or None,
        unquote(password) or None,
        dict(parse_qsl(query or "")),
    )


@dataclass(frozen=True, slots=True)
class ConnectionScaffold:
    """The draft of a connection: kind, name and options as SQL.

    * `password` is the option for the password, and `variable` the environment variable that clients of the server
      read it from. Empty without a login.
    * `schema` restricts the tables; empty for all schemas.
    """

    kind: str
    name: str
    options: tuple[str, ...]
    password: str
    variable: str
    schema: str = ""


@dataclass(frozen=True, slots=True)
class SourceScaffold:
    """The draft of a source, for example of a topic, or of a database, with a statement for each of its tables.

    * `found` is its name on the server.
    * `clauses` are alternatives for all that follows CREATE SOURCE name. The first that can be planned is used; if none
      is, the source is left out.
    * `notes` become comments, for example the reason.
    * If no clauses of a `whole` source, such as a database, can be planned, the draft fails.
    """

    name: str
    found: str
    clauses: tuple[str, ...]
    notes: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """A request for drafts of sources. `connection` and `registry` are SQL names of connections.

    * `names` restricts the names on the server; empty for all. `schema` restricts the tables.
    * `unmatched` collects the names that do not match.
    """

    connection: str
    registry: str | None = None
    names: tuple[str, ...] = ()
    schema: str = ""
    unmatched: list[str] = field(default_factory=list)

    def takes(self, name: str) -> bool:
        """Return whether a name on the server is requested, and record it otherwise."""
        if not self.names or name in self.names:
            return True
        self.unmatched.append(name)
        return False


def option(label: str, value: str | int) -> str:
    """Return an option as SQL."""
    return f"{label} {value if isinstance(value, int) else text(value)}"


def relation_name(server_name: str) -> str:
    """Return a relation name that needs no quotes for a name on the server."""
    plain = re.sub(r"\W+", "_", server_name, flags=re.ASCII).strip("_").lower()
    return ident(ast.Ident(plain if plain and not plain[0].isdigit() else f"t_{plain}"))
