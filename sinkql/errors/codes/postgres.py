"""Error codes of Postgres connections and sources."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_run = partial(Code, Family.RUN)
_environment = partial(Code, Family.ENVIRONMENT)
_SKIP = (
    "Run ALTER SOURCE … SKIP, for example `ALTER SOURCE shop SKIP;`. A running `sinkql up` then starts the sinks; "
    "otherwise, run `sinkql up`. Upsert sinks do a full refresh from the server's current rows. Append sinks continue "
    "with later changes and never get the lost ones."
)

CODES = {
    "SQ2801": _meaning(
        "A Postgres source has the tables of its publication, and only the server knows them.",
        "Run the script with sinkql exec or sinkql plan, which ask the server.",
    ),
    "SQ2802": _meaning(
        "This version of Postgres is too old: it cannot publish a partitioned table as one table.",
        "Use Postgres 13 or later.",
    ),
    "SQ2803": _meaning(
        "The server's wal_level is too low for logical replication.",
        "Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it.",
    ),
    "SQ2804": _meaning(
        "Each source needs a replication slot and a walsender on the server, and all of them are in use.",
        "Raise max_replication_slots or max_wal_senders, or drop unused slots.",
    ),
    "SQ2805": _meaning(
        "A standby supports logical decoding from Postgres 16 on.",
        "Connect to the primary.",
    ),
    "SQ2806": _meaning(
        "The database has no publication of this name.",
        "Correct the name, or run CREATE PUBLICATION on the server.",
    ),
    "SQ2807": _meaning(
        "The publication leaves out some kind of change, so SinkQL could not follow the tables exactly.",
        "On the server, run the ALTER PUBLICATION that the hint shows.",
    ),
    "SQ2808": _meaning(
        "The connection's user may not read the table, or may read only some of its rows.",
        "On the server, run the statement that the hint shows.",
    ),
    "SQ2809": _meaning(
        (
            "An UPDATE or DELETE of the table does not identify its row. The table has no primary key, or its "
            "replica identity leaves out the key."
        ),
        "On the server, run the ALTER TABLE that the hint shows.",
    ),
    "SQ2810": _meaning(
        "The publication's column list leaves out columns that SinkQL needs to read the table's changes.",
        "Add the columns to the list, or remove the list.",
    ),
    "SQ2811": _meaning(
        "The publication contains the table's partitions as separate tables.",
        "On the server, run the ALTER PUBLICATION that the hint shows. Or read the partitions.",
    ),
    "SQ2812": _meaning(
        "TEXT COLUMNS or EXCLUDE COLUMNS names a column that the publication's tables do not have.",
        "Write schema.table.column.",
    ),
    "SQ2813": _meaning(
        "EXCLUDE COLUMNS names a column of the table's key, which SinkQL needs.",
        "Keep the column in the source, and exclude it in a view.",
    ),
    "SQ2814": _meaning(
        "A column has a type that SinkQL does not support.",
        "Name the column in TEXT COLUMNS or in EXCLUDE COLUMNS.",
    ),
    "SQ2815": _meaning(
        "A database source needs a connection.",
        "Write FROM POSTGRES CONNECTION name (…).",
    ),
    "SQ2816": _meaning(
        "The statement declares something that the server decides, for example the columns of a table.",
        "Leave out the clause.",
    ),
    "SQ2817": _meaning(
        (
            "A notice: the server does not send long values that an update leaves unchanged, so sinks keep these "
            "values in their state."
        ),
        "If the server may send whole rows, run ALTER TABLE … REPLICA IDENTITY FULL there.",
    ),
    "SQ2819": _meaning(
        "A notice: the publication leaves out columns that are GENERATED ALWAYS AS, so the source does not have them.",
        (
            "From Postgres 18 on, set publish_generated_columns = stored on the publication before you create the "
            "sinks. Then run ALTER SOURCE … REFRESH REFERENCES. For older servers, compute the columns in a view."
        ),
    ),
    "SQ2550": _meaning(
        "A port must be a number from 1 to 65535.",
        "Correct PORT.",
    ),
    "SQ2555": _meaning(
        "HOST must be only the name or address of a server.",
        "Write the port in PORT, and remove all other parts of a URL.",
    ),
    "SQ2556": _meaning(
        (
            "A notice: an SSH TUNNEL connection has no HOST KEY. SinkQL trusts the key that the server shows at "
            "the first connection, and accepts no other key later."
        ),
        "Add HOST KEY with the server's public key. It protects the passwords that pass through the tunnel.",
    ),
    "SQ2551": _meaning(
        "A client certificate needs its key.",
        "Write both, or neither.",
    ),
    "SQ2552": _meaning(
        "To check the server's certificate, SinkQL needs the certificate of the authority that signed it.",
        "Add SSL CERTIFICATE AUTHORITY, or write SSL MODE = require.",
    ),
    "SQ2553": _meaning(
        "SSL MODE is disable, but the connection has a certificate or a key.",
        "Add SSL MODE = verify_full, verify_ca or require.",
    ),
    "SQ2554": _meaning(
        "HOST KEY of an SSH tunnel must be the server's public key: its type and the key.",
        "Copy it from ssh-keyscan, or from the server's ssh_host_ed25519_key.pub.",
    ),
    "SQ4401": _environment(
        "This machine cannot resolve the host of a Postgres connection.",
        "Correct HOST.",
        retryable=True,
    ),
    "SQ4402": _environment(
        "No server listens on the port of a Postgres connection.",
        "Start the server, or correct HOST and PORT.",
        retryable=True,
    ),
    "SQ4403": _environment(
        "The host of a Postgres connection does not answer.",
        "Open the port in the firewall between, or use an SSH tunnel.",
        retryable=True,
    ),
    "SQ4404": _environment(
        "The server does not know the user, or the password is wrong.",
        "Correct the secret with ALTER SECRET, or USER.",
        retryable=True,
    ),
    "SQ4405": _environment(
        "The server's pg_hba.conf does not allow the user to connect from this machine.",
        "Add a line for the user on the server, or use SSL.",
        retryable=True,
    ),
    "SQ4406": _environment(
        "The server has no database of this name.",
        "Correct DATABASE.",
        retryable=True,
    ),
    "SQ4407": _environment(
        "The connection requires SSL, which the server does not offer.",
        "Turn on SSL at the server, or leave out SSL MODE.",
        retryable=True,
    ),
    "SQ4408": _environment(
        "The server's certificate has expired, or another authority than the connection's signed it.",
        "Renew it on the server, or correct SSL CERTIFICATE AUTHORITY.",
        retryable=True,
    ),
    "SQ4409": _environment(
        "The server's certificate is for another host.",
        "Correct HOST, or use SSL MODE = verify_ca.",
        retryable=True,
    ),
    "SQ4410": _environment(
        "A certificate or key of the connection cannot be read.",
        "Use PEM text.",
        retryable=True,
    ),
    "SQ4411": _environment(
        "The connection's user may not read the server's changes.",
        "Run ALTER ROLE name REPLICATION on the server.",
        retryable=True,
    ),
    "SQ4412": _environment(
        "The server accepts no further connections now.",
        "Raise the server's limits, or end connections.",
        retryable=True,
    ),
    "SQ4413": _environment(
        "The server is starting or stopping.",
        "You need not do anything: the source retries.",
        retryable=True,
    ),
    "SQ4414": _environment(
        "The connection to Postgres fails for another reason.",
        "Read the detail.",
        retryable=True,
    ),
    "SQ4415": _environment(
        (
            "The server does not accept the connection's certificate. It requires one, the certificate has "
            "expired, or the server does not trust its authority."
        ),
        "Correct SSL CERTIFICATE and SSL KEY.",
        retryable=True,
    ),
    "SQ3701": _run(
        "The server no longer has the source's replication slot. The slot was dropped, or the server was restored.",
        _SKIP,
        of_loss=True,
    ),
    "SQ3702": _run(
        (
            "The server removed changes that SinkQL had not read. max_slot_wal_keep_size is too small, or the "
            "slot was unused for longer than idle_replication_slot_timeout."
        ),
        (
            "First raise the limit, or the loss happens again. Run ALTER SYSTEM SET max_slot_wal_keep_size = '20GB'; "
            f"and SELECT pg_reload_conf(); on the server. Then run {_SKIP.removeprefix('Run ')}"
        ),
        of_loss=True,
        symptoms=("lost changes", "wal removed", "removed unread changes", "slot lost", "slot invalidated"),
    ),
    "SQ3703": _run(
        "The connection of a source leads to another server than before.",
        (
            "Correct the connection. If the tables moved to this server, as after pg_upgrade, run ALTER SOURCE … "
            "REFRESH REFERENCES, and start the sinks. They continue if the replication slot moved too; otherwise "
            "they fail with SQ3701. After a dump, tables have other numbers: drop sinks that cannot do a full "
            "refresh first, and create them again with new tables."
        ),
    ),
    "SQ3704": _run(
        "The publication of a source was dropped.",
        (f"Create it again on the server. Changes in between were not sent. {_SKIP}"),
        of_loss=True,
    ),
    "SQ3705": _run(
        "The server of a source no longer has wal_level = logical.",
        "Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it.",
    ),
    "SQ3706": _run(
        "Another program reads the replication slot of a source.",
        "Stop that program.",
        retryable=True,
    ),
    "SQ3707": _run(
        "A source needs a replication slot, and the server has no free one.",
        "Raise max_replication_slots, or drop an unused slot.",
        retryable=True,
    ),
    "SQ3708": _run(
        "A source waits for open transactions on its server, or for a standby's confirmation.",
        "Wait for the transactions, or end them.",
        retryable=True,
    ),
    "SQ3709": _run(
        (
            "The server lacks changes that SinkQL has already read. It was restored from a copy, or a standby "
            "without them took over."
        ),
        _SKIP,
        of_loss=True,
    ),
    "SQ3713": _run(
        "The server sent a message that SinkQL does not understand.",
        "Report this as a bug, and include the server's version.",
    ),
    "SQ4420": _environment(
        "The SSH server of a tunnel does not answer.",
        "Correct HOST and PORT of the tunnel.",
        retryable=True,
    ),
    "SQ4421": _environment(
        "The SSH server of a tunnel accepts none of the tunnel's keys for the user.",
        "Add a public key of the tunnel to the user's authorized_keys on the server.",
        retryable=True,
    ),
    "SQ4422": _environment(
        "The SSH server of a tunnel cannot reach the target of the connection.",
        "Correct HOST and PORT of the connection. The SSH server resolves them.",
        retryable=True,
    ),
    "SQ4423": _environment(
        "The SSH server's key differs from HOST KEY, so it may be another server.",
        "Ask the server's administrator, and correct HOST KEY.",
        retryable=True,
    ),
    "SQ4425": _environment(
        (
            "An SSH TUNNEL connection has no HOST KEY, and the server's key differs from the key at the first "
            "connection. It may be another server."
        ),
        (
            "Ask the server's administrator. If the key has changed, run ALTER CONNECTION … SET (HOST KEY = '…'); "
            "with the new key."
        ),
        retryable=True,
    ),
    "SQ4424": _environment(
        "SSH tunnels need the package asyncssh.",
        "Run pip install 'sinkql[ssh]'.",
    ),
}
