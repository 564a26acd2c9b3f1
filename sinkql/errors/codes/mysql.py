"""Error codes of MySQL and MariaDB connections and sources."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_environment = partial(Code, Family.ENVIRONMENT)
_SKIP = (
    "Run ALTER SOURCE … SKIP, for example `ALTER SOURCE shop SKIP;`. A running `sinkql up` then starts the sinks; "
    "otherwise, run `sinkql up`. Upsert sinks do a full refresh from the server's current rows. Append sinks continue "
    "with later changes and never get the lost ones."
)

CODES = {
    "SQ2830": _meaning(
        (
            "The server's log does not contain this table's changes in the usual form. Its storage engine has no "
            "transactions, or the table keeps old row versions."
        ),
        "On the server, run the statement that the hint shows, or read other tables.",
    ),
    "SQ2831": _meaning(
        (
            "A foreign key with CASCADE or SET NULL changes rows inside the storage engine, without an entry in "
            "the server's log. SinkQL could not follow the table exactly."
        ),
        "Change the foreign key on the server. If it never changes rows, write WITH (IGNORE CASCADES = true).",
    ),
    "SQ2832": _meaning(
        (
            "TEXT COLUMNS names a MySQL or MariaDB column of floating-point numbers, bits or bytes. The server's "
            "log does not contain its text form."
        ),
        "Remove it from TEXT COLUMNS, and cast it to text in a view.",
    ),
    "SQ4460": _environment(
        "A MySQL or MariaDB server does not answer, or fails at a request.",
        "Check HOST and PORT of the connection. Check that the server runs and that this machine can reach it.",
        retryable=True,
    ),
    "SQ4461": _environment(
        "A MySQL or MariaDB server rejects the connection's user or password.",
        "Correct USER and the secret of PASSWORD. Check that the user may connect from this machine.",
        retryable=True,
    ),
    "SQ4462": _environment(
        "A connection to a MySQL or MariaDB server cannot be encrypted as SSL MODE requires.",
        "Correct SSL MODE and the certificates, as the hint shows.",
        retryable=True,
    ),
    "SQ4463": _environment(
        "A MySQL or MariaDB server is too old: its binary log cannot contain column names.",
        "Use MySQL 8.0 or MariaDB 10.5, or later.",
    ),
    "SQ4464": _environment(
        "A setting of a MySQL or MariaDB server makes its binary log incomplete.",
        "Change the setting as the hint shows, and let all clients connect again.",
        retryable=True,
    ),
    "SQ4465": _environment(
        "The connection's user lacks a privilege that SinkQL needs on a MySQL or MariaDB server.",
        "Run GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user on the server.",
        retryable=True,
    ),
    "SQ4466": _environment(
        "A MySQL or MariaDB server has purged the part of its binary log that a source reads next.",
        f"{_SKIP} Raise binlog_expire_logs_seconds.",
        of_loss=True,
    ),
    "SQ4467": _environment(
        "A MySQL or MariaDB server lacks transactions that SinkQL has already read, for example after a failover.",
        f"Correct the connection. If this server took over, run {_SKIP.removeprefix('Run ')}",
        of_loss=True,
    ),
    "SQ4468": _environment(
        "A change in the binary log of a MySQL or MariaDB server contains only some of the row's columns.",
        f"Correct the setting that the hint names. Then run {_SKIP.removeprefix('Run ')}",
        of_loss=True,
    ),
    "SQ4469": _environment(
        "SinkQL cannot read an entry in the binary log of a MySQL or MariaDB server.",
        _SKIP,
        of_loss=True,
    ),
    "SQ4471": _environment(
        (
            "A MySQL server asks for the password in clear text, but the connection does not verify that it is "
            "the right server."
        ),
        (
            "Add SSL MODE = 'verify_identity' and SSL CERTIFICATE AUTHORITY to the connection. For "
            "caching_sha2_password and sha256_password, SSL MODE = 'required' works too, but it sends the "
            "password without checking the certificate, as MySQL's client does."
        ),
    ),
    "SQ4470": _environment(
        (
            "A MySQL or MariaDB server has prepared distributed transactions that began before SinkQL read the "
            "source. SinkQL cannot know their changes."
        ),
        "Commit or roll back these transactions. XA RECOVER on the server lists them.",
        retryable=True,
    ),
}
