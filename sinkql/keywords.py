"""Words with a meaning of their own: those of the language, and those that connectors add to it.

The parser, the printer and the masks know no connector. What they must know of the installed ones is a value of
`Keywords`, which `sinkql.connector_api.registry` makes of the connectors' dataclasses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Literal

from sinkql.errors import nearest

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
"""Words that are printed in quotes: reserved, or a keyword somewhere where a name may stand too."""

SHOWN = frozenset(
    {
        "CLUSTERS", "COLUMNS", "CONNECTIONS", "CREATE", "DATABASES", "FIELDS", "INDEXES", "MATERIALIZED", "OBJECTS",
        "PRIVILEGES", "REDACTED", "ROLES", "SCHEMAS", "SECRETS", "SINKS", "SOURCES", "SUBSOURCES", "TABLES", "TIME",
        "TRANSACTION", "TYPES", "VIEWS",
    }
)  # fmt: skip
"""Words that after SHOW begin something else than a variable's name."""

SET = frozenset({"NAMES", "SCHEMA", "TIME", "TRANSACTION"})
"""Words that after SET begin something else than a variable's name."""

SECRET_FUNCTIONS = {
    "env_var": ("NAME",),
    "file": ("path",),
    "keyring": ("service", "name"),
    "vault": ("path", "field"),
    "aws_secret": ("id", "field"),
    "decode": ("…", "base64"),
}
"""What CREATE SECRET … AS may call, and its arguments as hints show them; the field of `aws_secret` may be left out."""

OPTION_NAMES = frozenset(
    {
        # clusters
        "AUTO SCALING STRATEGY", "EXPERIMENTAL ARRANGEMENT COMPRESSION", "HYDRATION SIZE", "HYDRATION TIME ESTIMATE",
        "LINGER DURATION",
        "CONF", "CORES", "DISK", "EXECUTORS", "INTROSPECTION DEBUGGING", "INTROSPECTION INTERVAL", "MANAGED", "MASTER",
        "MEMORY", "REPLICAS", "REPLICATION FACTOR", "SCHEDULE", "SIZE", "WORKLOAD CLASS",
        # connections, sources, tables, views and sinks of any kind
        "ASSERT NOT NULL", "PARTITION BY", "REFRESH", "RETAIN HISTORY", "TABLE PREFIX", "TIMESTAMP INTERVAL",
        "VALIDATE", "VERSION",
    }
)  # fmt: skip
"""Names of the language's own options after which `=` may be left out before a bare word: `SIZE small`."""

PLAIN_NAME = r"[^\x00-^`{-\x7f][^\x00-#%-/:-^`{-\x7f]*"
"""A name that its characters leave unquoted, as a regular expression: small letters, and all beyond ASCII.

It names the characters that it does not take: a range up to the last one takes forty times as long to compile.
"""

ODD_CHARACTERS = "\u0085\u00a0\u00ab\u00b4\u00bb\u1680\u2000-\u206f\u2212\u3000\ufeff\uff08\uff09\uff0c\uff1b\uff1d"
"""Characters, as in a regular expression's brackets, that word processors put for quotes, dashes and spaces."""

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
"""Words that are one terminal of the grammar: what begins alike is told apart by more than one word ahead."""


# --- what connectors add --------------------------------------------------------------------------------------------

Role = Literal["CONNECTION", "SOURCE", "SINK", "FORMAT"]
"""What a kind is a kind of: CREATE CONNECTION … TO kind, CREATE SOURCE … FROM kind, INTO kind, FORMAT kind."""

_SECRET_WORDS = frozenset(
    {
        "APIKEY", "CREDENTIAL", "CREDENTIALS", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "PRIVATE", "PWD", "SECRET",
        "SECRETS", "TOKEN",
    }
)  # fmt: skip
"""Words that make an option that nobody knows one that may hold a secret."""

_LONG_SECRET_WORDS = tuple(word for word in sorted(_SECRET_WORDS) if len(word) > 4)
_OF_ROWS = frozenset({"CLUSTER", "FOREIGN", "MESSAGE", "ORDER", "PARTITION", "PRIMARY", "ROW", "SORT", "UNIQUE"})
"""Words before KEY that make it a key of rows, not one that opens something."""


@dataclass(frozen=True, slots=True)
class OptionWords:
    """What a kind's options are called, in upper case with single spaces.

    Of `labels`, the names of all, the literals of those in `secrets` are shown to nobody, and those in `references`
    take the name of a connection. Those of `secrets` in `paired` are secrets only together with another option. Of
    options that take one of some words, `choices` has each label with each word.
    """

    labels: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    references: frozenset[str] = frozenset()
    paired: frozenset[str] = frozenset()
    choices: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, eq=False)
class Keywords:
    """The kinds that connectors offer, by the words that SQL uses, each with its options.

    What is printed as `TO kind (label = value, …)` is read the same under any vocabulary: so are the items of a catalog
    without the connectors that they were made with. Where `=` is left out, the labels tell where a value begins.
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
        """Return what is known of a kind's options; None for a kind that nobody offers."""
        return self.kinds.get(role, {}).get(kind)

    def hides(self, role: Role, kind: str | None, label: str) -> bool:
        """Say whether the literals of an option are secrets, or may be.

        The type of the option decides. Of a kind that nobody offers all literals may be secrets; of an option that its
        kind does not have, those whose name says so. `kind` None is a kind that the text does not tell.
        """
        options = self.options(role, kind) if kind is not None else OptionWords(self.labels, self.secrets)
        if options is None:
            return True
        if label in options.labels:
            return label in options.secrets
        return self.suspects(label)

    def suspects(self, label: str) -> bool:
        """Say whether an option that its kind does not have may be meant as one that takes a secret."""
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
"""No connector: enough for what was printed from a statement."""


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified_name(*parts: str) -> str:
    """Return the full name of these parts; one with a dot or a quote in it stands in quotes."""
    return ".".join(quoted(part) if not part or '"' in part or "." in part else part for part in parts)


@cache
def longest_phrase(names: frozenset[str]) -> int:
    """Return how many words the longest of some names has."""
    return max((name.count(" ") + 1 for name in names), default=0)


def longest_match(run: Iterable[str], names: frozenset[str]) -> int:
    """Return how many words the longest known name takes that a run of words begins with; 0 for none."""
    words = tuple(islice(run, longest_phrase(names)))
    return max((count for count in range(1, len(words) + 1) if " ".join(words[:count]) in names), default=0)


_SECRET_SETTING = re.compile(
    r"spark\..*(?:(?:password|passwd|passphrase|secret|token|credential)"
    r"|(?:secret(?:[._-]access)?|private|encryption|account)[._-]?key(?:\.[^ ]*\.core\.windows\.net)?"
    r"|client\.secret\..*|fs\.azure\.sas\..*)",
    re.IGNORECASE,
)


def secret_setting(key: str) -> bool:
    """Tell whether a setting of Spark is a secret: a password, a key or a token of Hadoop's file systems or its own."""
    return _SECRET_SETTING.fullmatch(key) is not None
