"""Words with a special meaning: the words of the language, and the words that connectors add.

The parser, the printer and the redaction know no connector. Their knowledge of the installed connectors is a value of
`Keywords`, which `sinkql.connector_api.registry` builds from the connectors' dataclasses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Literal

from sinkql.errors import nearest

_PART = re.compile(r'"(?:[^"]|"")*"|[^.]+')
RESERVED = frozenset(
    {
        "WITH", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH",
        "OPTIONS", "RETURNING", "UNION", "EXCEPT", "INTERSECT",
    }
)  # fmt: skip
"""Words that are names only in quotes, or after AS."""

QUOTED = RESERVED | frozenset(
    {
        "TRUE", "FALSE", "NULL", "ARRAY", "CASE", "CAST", "NOT", "IF", "IN", "ALL", "DEFAULT", "SECRET", "INTERVAL",
        "MAP", "SESSION", "LOCAL", "PRIMARY", "CONSTRAINT", "FOREIGN", "ON", "AT",
    }
)  # fmt: skip
"""Words that are printed in quotes: reserved words, and keywords at a place where a name is possible too."""

SHOWN = frozenset(
    {
        "CLUSTERS", "COLUMNS", "CONNECTIONS", "CREATE", "DATABASES", "FIELDS", "INDEXES", "MATERIALIZED", "OBJECTS",
        "PRIVILEGES", "REDACTED", "ROLES", "SCHEMAS", "SECRETS", "SINKS", "SOURCES", "SUBSOURCES", "TABLES", "TIME",
        "TRANSACTION", "TYPES", "VIEWS",
    }
)  # fmt: skip
"""Words after SHOW that are not the name of a variable."""

SET = frozenset({"NAMES", "SCHEMA", "TIME", "TRANSACTION"})
"""Words after SET that are not the name of a variable."""

SECRET_FUNCTIONS = {
    "env_var": ("NAME",),
    "file": ("path",),
    "keyring": ("service", "name"),
    "vault": ("path", "field"),
    "aws_secret": ("id", "field"),
    "decode": ("…", "base64"),
}
"""The functions of CREATE SECRET … AS, with their arguments for hints; the field of `aws_secret` is optional."""

OPTION_NAMES = frozenset(
    {
        # clusters
        "AUTO SCALING STRATEGY", "EXPERIMENTAL ARRANGEMENT COMPRESSION", "HYDRATION SIZE", "HYDRATION TIME ESTIMATE",
        "LINGER DURATION",
        "CONF", "CORES", "DISK", "EXECUTION", "EXECUTORS", "INTROSPECTION DEBUGGING", "INTROSPECTION INTERVAL",
        "MANAGED", "MASTER", "MEMORY", "REPLICAS", "REPLICATION FACTOR", "SCHEDULE", "SIZE", "SPARK IDLE",
        "WORKLOAD CLASS",
        # connections, sources, tables, views and sinks of any kind
        "ASSERT NOT NULL", "PARTITION BY", "REFRESH", "RETAIN HISTORY", "TABLE PREFIX", "TIMESTAMP INTERVAL",
        "VALIDATE", "VERSION",
    }
)  # fmt: skip
"""Names of the language's options after which `=` may be omitted before a bare word: `SIZE small`."""

PLAIN_NAME = r"[^\x00-^`{-\x7f][^\x00-#%-/:-^`{-\x7f]*"
"""A name that needs no quotes because of its characters, as a regular expression: small letters, and all above ASCII.

It excludes ASCII characters: a range up to the last character takes forty times as long to compile.
"""

ODD_CHARACTERS = "\u0085\u00a0\u00ab\u00b4\u00bb\u1680\u2000-\u206f\u2212\u3000\ufeff\uff08\uff09\uff0c\uff1b\uff1d"
"""Characters that word processors use as quotes, dashes and spaces, for a regular expression's brackets."""

QUERY = RESERVED | frozenset(
    {
        "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CROSS", "DATE", "DESC", "DISTINCT",
        "ELSE", "END", "EXISTS", "FALSE", "FILTER", "FIRST", "FULL", "ILIKE", "IN", "INNER", "INTERVAL", "IS", "JOIN",
        "LAST", "LATERAL", "LEFT", "LIKE", "NATURAL", "NOT", "NULL", "NULLS", "ON", "OR", "OUTER", "OVER", "PARTITION",
        "RECURSIVE", "RIGHT", "SOME", "THEN", "TIMESTAMP", "TRUE", "USING", "VALUES", "WHEN",
    }
)  # fmt: skip
"""Words that are keywords inside queries, for highlighting and completion."""

RUNS = {
    "CSV_WITH": "WITH",
    "DOC_ON": "DOC ON",
    "KEY_STRATEGY": "KEY STRATEGY",
    "PARTITION_BY": "PARTITION BY",
    "VALUE_STRATEGY": "VALUE STRATEGY",
}
"""Groups of words that are one terminal; several words decide between groups with the same beginning."""


# --- what connectors add --------------------------------------------------------------------------------------------

Role = Literal["CONNECTION", "SOURCE", "SINK", "FORMAT"]
"""The role of a kind: CREATE CONNECTION … TO kind, CREATE SOURCE … FROM kind, INTO kind, FORMAT kind."""

_SECRET_WORDS = frozenset(
    {
        "APIKEY", "CREDENTIAL", "CREDENTIALS", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "PRIVATE", "PWD", "SECRET",
        "SECRETS", "TOKEN",
    }
)  # fmt: skip
"""Words in the name of an unknown option that suggest a secret."""

_LONG_SECRET_WORDS = tuple(word for word in sorted(_SECRET_WORDS) if len(word) > 4)
_OF_ROWS = frozenset({"CLUSTER", "FOREIGN", "MESSAGE", "ORDER", "PARTITION", "PRIMARY", "ROW", "SORT", "UNIQUE"})
"""Words before KEY that mean the key of rows, not a secret key."""


@dataclass(frozen=True, slots=True)
class OptionWords:
    """The names of a kind's options, in upper case with single spaces.

    `labels` are all names. The literals of options in `secrets` are never shown; an option in `paired` is a secret only
    together with another option. Options in `references` take the name of a connection. `choices` pairs each label
    with each word that its option allows.
    """

    labels: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    references: frozenset[str] = frozenset()
    paired: frozenset[str] = frozenset()
    choices: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, eq=False)
class Keywords:
    """The kinds that connectors offer, by their words in SQL, each with its options.

    Text printed as `TO kind (label = value, …)` parses with any keywords, so that the items of a catalog parse without
    the connectors that created them. If `=` is omitted, the labels decide where a value begins.
    """

    kinds: Mapping[Role, Mapping[str, OptionWords]] = field(default_factory=dict)
    labels: frozenset[str] = field(init=False, repr=False)
    secrets: frozenset[str] = field(init=False, repr=False)
    words: frozenset[str] = field(init=False, repr=False)
    choices: frozenset[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options = [kind_options for kinds in self.kinds.values() for kind_options in kinds.values()]
        object.__setattr__(self, "labels", OPTION_NAMES.union(*(kind_options.labels for kind_options in options)))
        object.__setattr__(self, "secrets", frozenset().union(*(kind_options.secrets for kind_options in options)))
        object.__setattr__(self, "choices", frozenset().union(*(kind_options.choices for kind_options in options)))
        object.__setattr__(self, "words", frozenset(kind for kinds in self.kinds.values() for kind in kinds))

    def options(self, role: Role, kind: str) -> OptionWords | None:
        """Return the words of a kind's options; None for an unknown kind."""
        return self.kinds.get(role, {}).get(kind)

    def hides(self, role: Role, kind: str | None, label: str) -> bool:
        """Return whether the literals of an option are secrets, or may be.

        The type of the option decides. All literals of an unknown kind may be secrets; of an unknown option, if its
        name suggests it. `kind` is None if the text does not name a kind.
        """
        options = self.options(role, kind) if kind is not None else OptionWords(self.labels, self.secrets)
        if options is None:
            return True
        if label in options.labels:
            return label in options.secrets
        return self.suspects(label)

    def suspects(self, label: str) -> bool:
        """Return whether an unknown option may be meant as an option that takes a secret."""
        if label.replace("_", " ") in self.secrets:
            return True
        if label in self.labels:
            return False
        if nearest(label, tuple(self.secrets), 0.8):
            return True
        words = label.replace("_", " ").split()
        if words[-1:] == ["KEY"] and len(words) > 1 and words[-2] not in _OF_ROWS:
            return True
        return not _SECRET_WORDS.isdisjoint(words) or any(nearest(word, _LONG_SECRET_WORDS, 0.8) for word in words)


LANGUAGE = Keywords()
"""The words without connectors: enough for text printed from a statement."""


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified_name(*parts: str) -> str:
    """Return the full name of these parts; a part with a dot or a quote is quoted."""
    return ".".join(quoted(part) if not part or '"' in part or "." in part else part for part in parts)


def split_name(full_name: str) -> tuple[str, ...]:
    """Return the parts that `qualified_name` has joined."""
    parts = _PART.findall(full_name)
    return tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)


@cache
def longest_phrase(names: frozenset[str]) -> int:
    """Return the number of words in the longest of the names."""
    return max((name.count(" ") + 1 for name in names), default=0)


def longest_match(run: Iterable[str], names: frozenset[str]) -> int:
    """Return the number of words in the longest known name at the start of a run of words; 0 for none."""
    words = tuple(islice(run, longest_phrase(names)))
    return max((count for count in range(1, len(words) + 1) if " ".join(words[:count]) in names), default=0)


_SECRET_SETTING = re.compile(
    r"spark\..*(?:(?:password|passwd|passphrase|secret|token|credential)"
    r"|(?:secret(?:[._-]access)?|private|encryption|account)[._-]?key(?:\.[^ ]*\.core\.windows\.net)?"
    r"|client\.secret\..*|fs\.azure\.sas\..*)",
    re.IGNORECASE,
)


def secret_setting(key: str) -> bool:
    """Return whether a setting of Spark is a secret: a password, key or token of Spark or of a Hadoop file system."""
    return _SECRET_SETTING.fullmatch(key) is not None
