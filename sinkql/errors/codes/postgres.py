"""Error codes of Postgres connections and sources."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_run = partial(Code, Family.RUN)
_environment = partial(Code, Family.ENVIRONMENT)
_SKIP = (
    "Run ALTER SOURCE … SKIP, and start the sinks again: upsert sinks compute their rows again from what the server "
    "has now, others go on with what comes from then on."
)

CODES = {
    "SQ2801": _meaning(
        "A source from Postgres has the tables of its publication, and only the server tells which these are.",
        "Run the script with sinkql exec or sinkql plan, which ask the server.",
    ),
    "SQ2802": _meaning(
        "The server's version of Postgres is too old: it cannot publish a partitioned table as one.",
        "Use a server of Postgres 13 or later.",
    ),
    "SQ2803": _meaning(
        "The server writes less into its log than logical replication needs.",
        "Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it.",
    ),
    "SQ2804": _meaning(
        "Each source needs a replication slot and a walsender of the server, and all of them are in use.",
        "Raise max_replication_slots or max_wal_senders, or drop slots that nobody reads.",
    ),
    "SQ2805": _meaning(
        "A standby decodes its log from Postgres 16 on.",
        "Connect to the primary.",
    ),
    "SQ2806": _meaning(
        "The database has no publication of this name.",
        "Correct the name, or run CREATE PUBLICATION on the server.",
    ),
    "SQ2807": _meaning(
        "The publication leaves out some kind of change, so tables could not be kept like the server's.",
        "Run the ALTER PUBLICATION that the hint shows on the server.",
    ),
    "SQ2808": _meaning(
        "The connection's user may not read the table, or only some of its rows.",
        "Run what the hint shows on the server.",
    ),
    "SQ2809": _meaning(
        "An UPDATE or DELETE of the table does not tell which row it changes: the table has no primary key, or its "
        "replica identity leaves the key out.",
        "Run the ALTER TABLE that the hint shows on the server.",
    ),
    "SQ2810": _meaning(
        "The publication's column list leaves out columns without which the table's changes cannot be read.",
        "Add the columns to the list, or leave the list out.",
    ),
    "SQ2811": _meaning(
        "The publication has the partitions of the table, each as a table of its own.",
        "Run the ALTER PUBLICATION that the hint shows on the server, or read the partitions.",
    ),
    "SQ2812": _meaning(
        "TEXT COLUMNS or EXCLUDE COLUMNS names a column that the publication's tables do not have.",
        "Write schema.table.column.",
    ),
    "SQ2813": _meaning(
        "EXCLUDE COLUMNS names a column of the table's key, by which its changes are told apart.",
        "Leave it in, and leave it out in a view.",
    ),
    "SQ2814": _meaning(
        "A column has a type that has no counterpart here.",
        "Name it in TEXT COLUMNS or in EXCLUDE COLUMNS.",
    ),
    "SQ2815": _meaning(
        "A source from a database is read through a connection.",
        "Write FROM POSTGRES CONNECTION name (…).",
    ),
    "SQ2816": _meaning(
        "The statement says what the server says: which columns its tables have, and how they change.",
        "Leave the clause out.",
    ),
    "SQ2817": _meaning(
        "A notice: the server does not send long values that an update leaves as they are, so sinks keep them.",
        "Run ALTER TABLE … REPLICA IDENTITY FULL on the server where the server may send whole rows.",
    ),
    "SQ2819": _meaning(
        "A notice: the publication leaves out columns that are GENERATED ALWAYS AS, so the source does not have them.",
        "From Postgres 18 on, set publish_generated_columns = stored on the publication before the sinks are created, "
        "and run ALTER SOURCE … REFRESH REFERENCES. Otherwise compute the columns in a view.",
    ),
    "SQ2550": _meaning(
        "A port is a number from 1 to 65535.",
        "Correct PORT.",
    ),
    "SQ2555": _meaning(
        "HOST is the name or the address of a server alone.",
        "Write the port as PORT, and leave out what else a URL has.",
    ),
    "SQ2556": _meaning(
        "A notice: an SSH TUNNEL connection names no key of its server, so whoever answers at HOST when it is first "
        "used is taken for it. From then on the key of that server is known, and no other server is taken.",
        "Add HOST KEY with the server's public key. The passwords of what goes through the tunnel depend on it.",
    ),
    "SQ2551": _meaning(
        "A client's certificate comes with its key.",
        "Give both, or none.",
    ),
    "SQ2552": _meaning(
        "The server's certificate is checked with that of the authority that signed it.",
        "Add SSL CERTIFICATE AUTHORITY, or write SSL MODE = require.",
    ),
    "SQ2553": _meaning(
        "The connection has a certificate or a key, and SSL MODE disable, which uses none.",
        "Add SSL MODE = verify_full, verify_ca or require.",
    ),
    "SQ2554": _meaning(
        "HOST KEY of an SSH tunnel is the server's public key: its type and the key.",
        "Copy it from ssh-keyscan, or from the server's ssh_host_ed25519_key.pub.",
    ),
    "SQ4401": _environment(
        "The host of a Postgres connection is not known to this machine.",
        "Correct HOST.",
        retryable=True,
    ),
    "SQ4402": _environment(
        "Nothing listens on the port of a Postgres connection.",
        "Start the server, or correct HOST and PORT.",
        retryable=True,
    ),
    "SQ4403": _environment(
        "The host of a Postgres connection does not answer.",
        "Open the port in the firewall between, or use an SSH tunnel.",
        retryable=True,
    ),
    "SQ4404": _environment(
        "The server does not know the user, or the password is not the user's.",
        "Correct the secret with ALTER SECRET, or USER. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4405": _environment(
        "The server's pg_hba.conf does not let the user in from this machine.",
        "Add a line for it on the server, or use SSL.",
        retryable=True,
    ),
    "SQ4406": _environment(
        "The server has no database of this name.",
        "Correct DATABASE. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4407": _environment(
        "The connection asks for SSL, which the server does not have.",
        "Turn SSL on at the server, or leave out SSL MODE. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4408": _environment(
        "The server's certificate has expired, or was not signed by the connection's authority.",
        "Renew it on the server, or correct SSL CERTIFICATE AUTHORITY. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4409": _environment(
        "The server's certificate is for another host.",
        "Correct HOST, or use SSL MODE = verify_ca. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4410": _environment(
        "A certificate or key of the connection cannot be read.",
        "Give it as PEM text. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4411": _environment(
        "The connection's user has no right to read the server's changes.",
        "Run ALTER ROLE name REPLICATION on the server. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4412": _environment(
        "The server takes no more connections now.",
        "Raise the server's limits, or end connections. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4413": _environment(
        "The server is starting or stopping.",
        "Nothing: a running source tries again by itself.",
        retryable=True,
    ),
    "SQ4414": _environment(
        "The connection to Postgres fails for another reason.",
        "Look at the detail. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4415": _environment(
        "The server does not accept the certificate of a connection: it asks for one, or that has expired, or was "
        "signed by an authority that the server does not trust.",
        "Correct SSL CERTIFICATE and SSL KEY. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ3701": _run(
        "The replication slot of a source is not on its server: it was dropped, or the server was put back.",
        _SKIP,
        of_loss=True,
    ),
    "SQ3702": _run(
        "The server has removed changes that the source has not read: max_slot_wal_keep_size was too small, or nobody "
        "read its slot for longer than idle_replication_slot_timeout.",
        _SKIP,
        of_loss=True,
    ),
    "SQ3703": _run(
        "The connection of a source leads to another server than the one that was read.",
        (
            "Correct the connection. If the tables have moved to this server, as after pg_upgrade, run ALTER SOURCE … "
            "REFRESH REFERENCES, and start the sinks. They go on if the replication slot has moved too; else SQ3701 "
            "tells how to go on. A sink that cannot compute its rows again is refused where tables have other numbers, "
            "as after a dump: drop it before, and create it again into a new table."
        ),
    ),
    "SQ3704": _run(
        "The publication of a source was dropped.",
        f"Create it again on the server. Changes in between were not sent. {_SKIP}",
        of_loss=True,
    ),
    "SQ3705": _run(
        "The server of a source no longer has wal_level = logical.",
        "Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it.",
    ),
    "SQ3706": _run(
        "A program that is not SinkQL reads the replication slot of a source.",
        "End that program. The source tries again by itself.",
        retryable=True,
    ),
    "SQ3707": _run(
        "A source needs a replication slot, and the server has none left.",
        "Raise max_replication_slots, or drop a slot that nobody reads. The source tries again by itself.",
        retryable=True,
    ),
    "SQ3708": _run(
        "A source waits for transactions of its server that have not ended, or that a standby has not confirmed.",
        "Wait for them, or end them. The source tries again by itself.",
        retryable=True,
    ),
    "SQ3709": _run(
        "The server of a source lacks changes that were read: it was put back from a copy, or a standby took over that "
        "did not have them. What it has at their place by now, if anything, is something else.",
        _SKIP,
        of_loss=True,
    ),
    "SQ3713": _run(
        "A server sends what SinkQL does not understand.",
        "Report it, with the version of the server.",
    ),
    "SQ4420": _environment(
        "The SSH server of a tunnel does not answer.",
        "Correct HOST and PORT of the tunnel. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4421": _environment(
        "The SSH server of a tunnel takes none of its keys for the user.",
        "Put a public key of the tunnel into the user's authorized_keys on the server.",
        retryable=True,
    ),
    "SQ4422": _environment(
        "The SSH server of a tunnel does not reach what is connected to.",
        "Correct HOST and PORT of the connection: they are looked up from the SSH server.",
        retryable=True,
    ),
    "SQ4423": _environment(
        "The SSH server's key is not the one that HOST KEY says: it may be another server.",
        "Ask who runs the server, and correct HOST KEY. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4425": _environment(
        "An SSH TUNNEL connection has no HOST KEY, and the server's key is not the one that it had when the tunnel was "
        "first used: it may be another server.",
        "Ask who runs the server. If its key has changed, run ALTER CONNECTION … SET (HOST KEY = '…'); with the new "
        "one. A running source tries again by itself.",
        retryable=True,
    ),
    "SQ4424": _environment(
        "SSH tunnels need asyncssh, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[ssh]'.",
    ),
}
