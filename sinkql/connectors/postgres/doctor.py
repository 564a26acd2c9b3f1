"""A server that sources read, or may read → what may keep them from running, now or later, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from sinkql import logical
from sinkql.connector_api.cdc import SKIP
from sinkql.connector_api.database_options import encryption
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.postgres.client import Login, failure
from sinkql.connectors.postgres.facts import SERVER, Tables, check_publication, check_server, creation
from sinkql.connectors.postgres.publication import quoted
from sinkql.connectors.postgres.slot import Connection, slot_name
from sinkql.errors import SinkqlError

_FINE = (130000, "logical", False, 1, 0, 1, 0)
"""What `check_server` takes of a server that lacks nothing."""
_GIB = 1 << 30
_MUCH = _GIB
_BOUND = "'20GB'"


def examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield what is found; raises SQ44… where the server does not let the user in."""
    login = Login.planned(planned, access)
    try:
        with login.connect() as connection:
            yield from _server(connection, examined)
            tls = connection.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
            yield encryption(str(tls[0] or "") if tls else "", planned.options["ssl_mode"], "verify_full")
            yield _replication(login)
            yield from _slots(connection, examined)
            names = {name for each in examined.readings if (name := each.text("PUBLICATION"))}
            yield from _publications(connection, sorted(names), examined.readings)
    except psycopg.Error as error:
        raise failure(error, login.options) from error


# --- the server -------------------------------------------------------------------------------------------------------


def _server(connection: Connection, examined: CheckContext) -> Iterator[HealthCheck]:
    row = connection.execute(SERVER).fetchone()
    assert row is not None
    version, level, standby, slots, used_slots, senders, used_senders = row
    shown = f"Postgres {version // 10000}.{version % 10000}"
    yield _judged("version", shown, version, *_FINE[1:])
    yield _judged("wal_level", level, _FINE[0], level, *_FINE[2:])
    if standby:
        yield _judged("server", "it is a standby", version, "logical", standby, *_FINE[3:])
    made = {name for (name,) in connection.execute("SELECT slot_name::text FROM pg_replication_slots")}
    ids = [each.facts.get("source_id") for each in examined.readings]
    if ids and all(each is not None and slot_name(each) in made for each in ids):
        used_slots, used_senders = min(used_slots, slots - 1), min(used_senders, senders - 1)  # they have theirs
    yield _judged("max_replication_slots", f"{slots - used_slots} of {slots} free", *_FINE[:3], slots, used_slots, 1, 0)
    yield _judged("max_wal_senders", f"{senders - used_senders} of {senders} free", *_FINE[:5], senders, used_senders)
    yield _bound(connection)


def _judged(name: str, found: str, *given: int | str | bool) -> HealthCheck:
    """Return a check of one of the server's settings: the others are as they should be."""
    try:
        check_server(*given)  # type: ignore[arg-type]  # in its order
    except SinkqlError as error:
        return HealthCheck(name, "wrong", error.message, error.hint)
    return HealthCheck(name, "ok", found)


def _bound(connection: Connection) -> HealthCheck:
    bound = _one(connection, "SELECT current_setting('max_slot_wal_keep_size')")
    if bound != "-1":
        return HealthCheck("max_slot_wal_keep_size", "ok", bound)
    return HealthCheck(
        "max_slot_wal_keep_size",
        "warning",
        "there is no bound: a slot that nobody reads may fill the server's disk",
        f"Run ALTER SYSTEM SET max_slot_wal_keep_size = {_BOUND}; and SELECT pg_reload_conf(); on the server.",
    )


def _replication(login: Login) -> HealthCheck:
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


def _slots(connection: Connection, examined: CheckContext) -> Iterator[HealthCheck]:
    rows = connection.execute(_SLOTS).fetchall()
    owners = {slot_name(id_): each for each in examined.readings if (id_ := each.facts.get("source_id")) is not None}
    for slot, active, status, retained in rows:
        if slot in owners:
            yield _slot(f"slot of {owners[slot].name}", status, retained or 0, active=active)
    if examined.source_ids is None:
        return
    known = {slot_name(each) for each in examined.source_ids}
    for slot, active, _, retained in rows:
        if slot in known:
            continue
        if active:
            yield HealthCheck(f"slot {slot}", "ok", "a source of another catalog reads it")
        else:
            found = f"no source of this catalog has it, nobody reads it, and it holds {_size(retained or 0)} of WAL"
            fix = f"If no other catalog has it, run SELECT pg_drop_replication_slot('{slot}'); on the server."
            yield HealthCheck(f"slot {slot}", "warning", found, fix)


def _slot(name: str, status: str | None, retained: int, *, active: bool) -> HealthCheck:
    held = f"it holds {_size(retained)} of WAL"
    if status == "lost":
        found = "the server has removed changes that were not read yet"
        source = name.removeprefix("slot of ")
        return HealthCheck(name, "wrong", found, SKIP.replace("SOURCE …", f"SOURCE {source}"))
    if status == "unreserved":
        found = f"{held}, and the server removes it soon"
        return HealthCheck(name, "wrong", found, "Run sinkql up, or raise max_slot_wal_keep_size on the server.")
    if not active and retained > _MUCH:
        return HealthCheck(name, "warning", f"nobody reads it, and {held}", "Run sinkql up, or drop the source.")
    return HealthCheck(name, "ok", f"{held}, and {'is read' if active else 'nobody reads it now'}")


def _size(bytes_: int) -> str:
    return f"{bytes_ / _GIB:.1f} GB" if bytes_ >= _GIB else f"{bytes_ / (1 << 20):.0f} MB"


# --- publications -----------------------------------------------------------------------------------------------------


def _publications(
    connection: Connection, names: Sequence[str], readings: Sequence[SourceUnderCheck]
) -> Iterator[HealthCheck]:
    found = names or [name for (name,) in connection.execute("SELECT pubname FROM pg_publication ORDER BY 1")]
    if not found:
        fix = f"Run {creation('sinkql')} on the server."
        yield HealthCheck("publication", "warning", "the database has none, which sources need", fix)
    for name in found:
        yield from _publication(connection, name, [each for each in readings if each.text("PUBLICATION") == name])


def _publication(connection: Connection, name: str, readings: Sequence[SourceUnderCheck]) -> Iterator[HealthCheck]:
    called = f"publication {name}"
    try:
        roots = check_publication(connection, name)
    except SinkqlError as error:
        yield HealthCheck(called, "wrong", error.message, error.hint)
        return
    version = connection.info.server_version
    tables, problems, left_out, partitioned = Tables.read(connection, name, version).found(roots=roots)
    yield HealthCheck(called, "ok", "1 table" if len(tables) == 1 else f"{len(tables)} tables")
    for each in tables:
        table = f"{each.schema}.{each.name}"
        problem = problems.get(table)
        if problem is not None:
            state = "wrong" if any(reading.reads(each.schema, each.name) for reading in readings) else "warning"
            yield HealthCheck(f"table {table}", state, problem.message, problem.hint)  # type: ignore[arg-type]  # one of the two
        elif table in left_out:
            columns = ", ".join(left_out[table])
            yield HealthCheck(f"table {table}", "ok", f"the publication does not send its columns {columns}")
        else:
            whole = "each change has the whole row" if each.identity == "full" else "changes have the key"
            yield HealthCheck(f"table {table}", "ok", f"replica identity {each.identity.upper()}: {whole}")
    whole_roots = f"Run ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true); on the server."
    for root in partitioned:
        yield HealthCheck(
            f"table {root}", "warning", "the publication has its partitions, and not the table", whole_roots
        )
    there = [(each.schema, each.name) for each in tables]
    for reference in dict.fromkeys(each for reading in readings for each in reading.references):
        if not any(table[-len(reference) :] == reference for table in there) and ".".join(reference) not in partitioned:
            written = ".".join(quoted(part) for part in reference)
            fix = f"Run ALTER PUBLICATION {quoted(name)} ADD TABLE {written}; on the server."
            yield HealthCheck(f"table {'.'.join(reference)}", "wrong", f'publication "{name}" does not have it', fix)


def _one(connection: Connection, query: str) -> str:
    row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])
