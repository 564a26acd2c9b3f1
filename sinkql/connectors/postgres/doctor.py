"""Check a server for problems that would stop its sources, now or later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from sinkql import logical
from sinkql.connector_api.database_options import encryption_check
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.postgres.client import Login, failure
from sinkql.connectors.postgres.facts import SERVER, Tables, check_publication, check_server, creation_statement
from sinkql.connectors.postgres.publication import quoted
from sinkql.connectors.postgres.slot import BOUND_HINT, Connection, find_slot, query_row, query_value, slot_name
from sinkql.errors import SinkqlError

_FINE = (130000, "logical", False, 1, 0, 1, 0)
"""Arguments of `check_server` for a server without problems."""
_GIB = 1 << 30
_MUCH_RETAINED = _GIB


def examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield the health checks; raise SQ44… if the server rejects the user."""
    login = Login.planned(planned, access)
    try:
        with login.connect() as connection:
            yield from _check_server_settings(connection, examined)
            tls = connection.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
            yield encryption_check(str(tls[0] or "") if tls else "", login.options.ssl_mode, "verify_full")
            yield _check_replication(login)
            yield from _check_slots(connection, examined)
            names = {name for reading in examined.readings if (name := reading.text("PUBLICATION"))}
            yield from _check_publications(connection, sorted(names), examined.readings)
    except psycopg.Error as error:
        raise failure(error, login.options) from error


# --- the server -------------------------------------------------------------------------------------------------------


def _check_server_settings(connection: Connection, examined: CheckContext) -> Iterator[HealthCheck]:
    version, level, standby, slots, used_slots, senders, used_senders = query_row(connection, SERVER)
    shown = f"Postgres {version // 10000}.{version % 10000}"
    yield _check_setting("version", shown, version, *_FINE[1:])
    yield _check_setting("wal_level", level, _FINE[0], level, *_FINE[2:])
    if standby:
        yield _check_setting("server", "the server is a standby", version, "logical", standby, *_FINE[3:])
    slot_names = {name for (name,) in connection.execute("SELECT slot_name::text FROM pg_replication_slots")}
    ids = [reading.facts.get("source_id") for reading in examined.readings]
    if ids and all(source_id is not None and slot_name(source_id) in slot_names for source_id in ids):
        used_slots, used_senders = (
            min(used_slots, slots - 1),
            min(used_senders, senders - 1),
        )  # these sources hold their slots and senders already
    yield _check_setting(
        "max_replication_slots", f"{slots - used_slots} of {slots} free", *_FINE[:3], slots, used_slots, 1, 0
    )
    yield _check_setting(
        "max_wal_senders", f"{senders - used_senders} of {senders} free", *_FINE[:5], senders, used_senders
    )
    yield _check_slot_bound(connection)


def _check_setting(name: str, value: str, *settings: int | str | bool) -> HealthCheck:
    """Return the check of one setting; all other `settings` have good values."""
    try:
        check_server(*settings)  # type: ignore[arg-type]  # in the order of its parameters
    except SinkqlError as error:
        return HealthCheck(name, "wrong", error.message, error.hint)
    return HealthCheck(name, "ok", value)


def _check_slot_bound(connection: Connection) -> HealthCheck:
    bound = query_value(connection, "SELECT current_setting('max_slot_wal_keep_size')")
    if bound != "-1":
        return HealthCheck("max_slot_wal_keep_size", "ok", bound)
    return HealthCheck(
        "max_slot_wal_keep_size",
        "warning",
        "the setting is unlimited: an unread slot may fill the server's disk",
        BOUND_HINT,
    )


def _check_replication(login: Login) -> HealthCheck:
    try:
        with login.connect(replication=True) as walsender:
            walsender.execute("IDENTIFY_SYSTEM")
    except SinkqlError as error:
        return HealthCheck("replication", "wrong", error.message, error.hint)
    return HealthCheck("replication", "ok", "the user may read the server's changes")


# --- slots ------------------------------------------------------------------------------------------------------------

_SLOTS = """
SELECT slot_name::text, active, wal_status,
       pg_wal_lsn_diff(
         CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn
       )::int8
FROM pg_replication_slots
WHERE slot_type = 'logical' AND database = current_database() AND slot_name LIKE 'sinkql\\_%'
ORDER BY slot_name
"""


def _check_slots(connection: Connection, examined: CheckContext) -> Iterator[HealthCheck]:
    rows = connection.execute(_SLOTS).fetchall()
    owners = {
        slot_name(id_): reading for reading in examined.readings if (id_ := reading.facts.get("source_id")) is not None
    }
    for slot, active, status, retained in rows:
        if slot in owners:
            name = owners[slot].name
            lost = find_slot(connection, slot) if status == "lost" else None
            if lost is not None and lost.lost is not None:
                cure = lost.cure.replace("SOURCE …", f"SOURCE {name}")
                yield HealthCheck(f"slot of {name}", "wrong", lost.lost[0], cure)
            else:
                yield _check_slot(f"slot of {name}", status, retained or 0, active=active)
    if examined.source_ids is None:
        return
    own_slots = {slot_name(source_id) for source_id in examined.source_ids}
    for slot, active, _, retained in rows:
        if slot in own_slots:
            continue
        if active:
            yield HealthCheck(f"slot {slot}", "ok", "a source of another catalog reads it")
        else:
            size = _format_size(retained or 0)
            message = f"no source of this catalog owns it, no process reads it, and it holds {size} of WAL"
            fix = f"If no other catalog owns it, run SELECT pg_drop_replication_slot('{slot}'); on the server."
            yield HealthCheck(f"slot {slot}", "warning", message, fix)


def _check_slot(name: str, status: str | None, retained: int, *, active: bool) -> HealthCheck:
    size_text = f"it holds {_format_size(retained)} of WAL"
    if status == "unreserved":
        message = f"{size_text}, and the server will remove it soon"
        return HealthCheck(name, "wrong", message, "Run sinkql up, or raise max_slot_wal_keep_size on the server.")
    if not active and retained > _MUCH_RETAINED:
        return HealthCheck(
            name, "warning", f"no process reads it, and {size_text}", "Run sinkql up, or drop the source."
        )
    return HealthCheck(name, "ok", f"{size_text}, and {'a process reads it' if active else 'no process reads it now'}")


def _format_size(bytes_: int) -> str:
    return f"{bytes_ / _GIB:.1f} GB" if bytes_ >= _GIB else f"{bytes_ / (1 << 20):.0f} MB"


# --- publications -----------------------------------------------------------------------------------------------------


def _check_publications(
    connection: Connection, names: Sequence[str], readings: Sequence[SourceUnderCheck]
) -> Iterator[HealthCheck]:
    publications = names or [name for (name,) in connection.execute("SELECT pubname FROM pg_publication ORDER BY 1")]
    if not publications:
        fix = f"Run {creation_statement('sinkql')} on the server."
        yield HealthCheck("publication", "warning", "the database has no publication, which sources need", fix)
    for name in publications:
        yield from _check_one_publication(
            connection, name, [reading for reading in readings if reading.text("PUBLICATION") == name]
        )


def _check_one_publication(
    connection: Connection, name: str, readings: Sequence[SourceUnderCheck]
) -> Iterator[HealthCheck]:
    called = f"publication {name}"
    try:
        roots = check_publication(connection, name)
    except SinkqlError as error:
        yield HealthCheck(called, "wrong", error.message, error.hint)
        return
    version = connection.info.server_version
    tables, problems, left_out, partitioned = Tables.read(connection, name, version).describe(roots=roots)
    yield HealthCheck(called, "ok", "1 table" if len(tables) == 1 else f"{len(tables)} tables")
    for server_table in tables:
        table = f"{server_table.schema}.{server_table.name}"
        problem = problems.get(table)
        if problem is not None:
            state = (
                "wrong"
                if any(reading.reads(server_table.schema, server_table.name) for reading in readings)
                else "warning"
            )
            yield HealthCheck(f"table {table}", state, problem.message, problem.hint)  # type: ignore[arg-type]  # one of the two
        elif table in left_out:
            columns = ", ".join(left_out[table])
            yield HealthCheck(f"table {table}", "ok", f"the publication does not send its columns {columns}")
        else:
            whole = "each change has the complete row" if server_table.identity == "full" else "changes have the key"
            yield HealthCheck(f"table {table}", "ok", f"replica identity {server_table.identity.upper()}: {whole}")
    whole_roots = f"Run ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true); on the server."
    for root in partitioned:
        yield HealthCheck(
            f"table {root}", "warning", "the publication has its partitions instead of the table", whole_roots
        )
    present = [(server_table.schema, server_table.name) for server_table in tables]
    for reference in dict.fromkeys(name_parts for reading in readings for name_parts in reading.references):
        if (
            not any(table[-len(reference) :] == reference for table in present)
            and ".".join(reference) not in partitioned
        ):
            written = ".".join(quoted(part) for part in reference)
            fix = f"Run ALTER PUBLICATION {quoted(name)} ADD TABLE {written}; on the server."
            yield HealthCheck(f"table {'.'.join(reference)}", "wrong", f'publication "{name}" does not have it', fix)
