"""Error codes of MySQL and MariaDB connections and sources."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_environment = partial(Code, Family.ENVIRONMENT)
_SKIP = (
    "Run ALTER SOURCE … SKIP, and start the sinks again: upsert sinks compute their rows again from what the server "
    "has now, others go on with what comes from then on."
)

CODES = {
    "SQ2830": _meaning(
        "Changes of the table are not in the server's log as those of others are: it has no transactions, or keeps "
        "its earlier rows itself.",
        "Run what the hint shows on the server, or read other tables.",
    ),
    "SQ2831": _meaning(
        "A foreign key with CASCADE or SET NULL changes rows of the table inside the storage engine, and the server "
        "logs nothing of it: the table could not be kept like the server's.",
        "Change the foreign key on the server, or write WITH (IGNORE CASCADES = true) if no rows go that way.",
    ),
    "SQ2832": _meaning(
        "TEXT COLUMNS names a column of MySQL or MariaDB whose text the server's log does not have: one of floating "
        "point numbers, bits or bytes.",
        "Leave it out of TEXT COLUMNS, and cast it to text in a view.",
    ),
    "SQ4460": _environment(
        "A MySQL or MariaDB server does not answer, or fails at what it was asked for.",
        "Check the connection's HOST and PORT, and that the server runs and can be reached from this machine.",
        retryable=True,
    ),
    "SQ4461": _environment(
        "A MySQL or MariaDB server refuses the user or the password of a connection.",
        (
            "Correct USER and the secret of PASSWORD, and see that the user may connect from this machine. A running "
            "source tries again by itself."
        ),
        retryable=True,
    ),
    "SQ4462": _environment(
        "A connection to a MySQL or MariaDB server cannot be encrypted as its SSL MODE says.",
        "Correct SSL MODE and the certificates, as the hint says. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4463": _environment(
        "A MySQL or MariaDB server is too old: its binary log cannot have the names of columns.",
        "Use MySQL 8.0 or MariaDB 10.5, or later ones.",
    ),
    "SQ4464": _environment(
        "A MySQL or MariaDB server is set so that its binary log does not have all changes whole.",
        "Change the setting as the hint says, and have all clients connect again. A running source tries again by "
        "itself.",
        retryable=True,
    ),
    "SQ4465": _environment(
        "The user of a connection lacks a privilege that reading a MySQL or MariaDB server takes.",
        (
            "Run GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user on the server. A running "
            "source tries again by itself."
        ),
        retryable=True,
    ),
    "SQ4466": _environment(
        "A MySQL or MariaDB server has deleted the part of its binary log that a source reads next.",
        f"{_SKIP} Set binlog_expire_logs_seconds higher.",
        of_loss=True,
    ),
    "SQ4467": _environment(
        "A MySQL or MariaDB server does not have transactions that a source has read, as after a failover.",
        (
            "Correct the connection. If this server has taken over, run ALTER SOURCE … SKIP, and start the sinks "
            "again: they compute their rows again from what the server has now."
        ),
        of_loss=True,
    ),
    "SQ4468": _environment(
        "The binary log of a MySQL or MariaDB server has a change with some of a row's columns only.",
        (
            "Correct the setting that the hint names. Then run ALTER SOURCE … SKIP, and start the sinks again: they "
            "compute their rows again from what the server has now."
        ),
        of_loss=True,
    ),
    "SQ4469": _environment(
        "The binary log of a MySQL or MariaDB server has something that cannot be read.",
        _SKIP,
        of_loss=True,
    ),
    "SQ4471": _environment(
        "Who answers as a MySQL server wants the password itself, though nothing shows that it is the server.",
        (
            "Add SSL MODE = 'verify_identity' and SSL CERTIFICATE AUTHORITY to the connection, with which the password "
            "goes to the right server alone. For caching_sha2_password and sha256_password SSL MODE = 'required' is "
            "enough, but with TLS whose certificate is not checked, these two send the password itself, as MySQL's "
            "client does: SSL MODE = 'verify_identity' protects."
        ),
    ),
    "SQ4470": _environment(
        "A MySQL or MariaDB server has distributed transactions that were prepared before a source began to be read, "
        "and that are neither committed nor rolled back: what they changed could not be known.",
        "Have them ended: XA RECOVER on the server lists them.",
        retryable=True,
    ),
}
