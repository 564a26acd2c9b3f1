"""Leases, desired states, statuses, progress and maintenance requests of sinks, stored in the catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sinkql.catalog.coordination.process import Process, now, this_process
from sinkql.catalog.coordination.shared_store import forget_notes
from sinkql.catalog.store import Connection, Store
from sinkql.connector_api.stream import Compacted
from sinkql.errors import LeaseHeldError, LeaseLostError, SinkqlError

LEASE_SECONDS = 30.0
_KEPT_CHANGES = 1000  # changes of status per sink; older ones are deleted
_ACCOUNT = ("read", "removed", "superseded", "filtered", "dropped", "failed", "stale")
_FOOTPRINT = ("files_before", "files_after", "bytes_before", "bytes_after")
_AT_ONCE = 500
"""The most values of one statement."""
_MINE = "sink_id = ? AND owner = ?"

Desired = Literal["running", "stopped", "dropped"]
Status = Literal["starting", "running", "snapshotting", "paused", "stalled", "fenced", "stopped", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a sink's lease, with the epoch and the expiry (`expires`, in seconds since 1970).

    `elsewhere` says whether its process may be on another host.
    """

    owner: str
    epoch: int
    process: Process
    expires: float
    elsewhere: bool

    def live(self, at: float) -> bool:
        """Return whether the lease is valid: it has not expired, and its process has not ended."""
        return at < self.expires and not self.process.has_ended(elsewhere=self.elsewhere)


class Control:
    """The coordination of the processes that may run a sink. See `sinkql.runtime.batch.control`.

    Leases follow the database's clock, or `clock` if it is set.
    """

    def __init__(
        self, database: Store, *, clock: Callable[[], float] | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._lease_seconds = lease_seconds

    @property
    def lease_seconds(self) -> float:
        """Return how long a lease is valid without renewal, in seconds."""
        return self._lease_seconds

    def _time(self, connection: Connection) -> float:
        return connection.clock() if self._clock is None else self._clock()

    def acquire(self, sink_id: str, *, owner: str, takeover: bool) -> int:
        """Lease the sink to `owner`; return the lease's epoch. Raises SQ5201 (held), SQ5208 (being dropped)."""
        with self._database.write() as connection:
            if _desired(connection, sink_id) == "dropped":
                raise SinkqlError("SQ5208", "sink is being dropped", hint="Create it again to run it.")
            holder = _holder(connection, sink_id)
            if holder is not None and holder.owner != owner and not takeover and holder.live(self._time(connection)):
                raise _already_running_error(holder.process)
            return self._lease(connection, sink_id, owner)

    def _lease(self, connection: Connection, sink_id: str, owner: str) -> int:
        process = this_process()
        values = {
            "owner": owner,
            "host": process.host,
            "pid": process.pid,
            "process": process.start,
            "expires": self._time(connection) + self._lease_seconds,
        }
        epoch = int(connection.scalar("SELECT epoch FROM leases WHERE sink_id = ?", sink_id) or 0) + 1
        connection.put("leases", "sink_id", {"sink_id": sink_id, "epoch": epoch, **values})
        return epoch

    def lease(self, source_id: str, *, owner: str) -> int | None:
        """Lease a source to its capture; return the lease's epoch. Return None while another live owner holds it."""
        with self._database.write() as connection:
            holder = _holder(connection, source_id)
            if holder is not None and holder.owner != owner and holder.live(self._time(connection)):
                return None
            return self._lease(connection, source_id, owner)

    def offsets(self) -> dict[str, str]:
        """Return the offsets of the sinks' last commits, as JSON, by sink id."""
        with self._database.read() as connection:
            return {row.sink_id: row.offsets for row in connection.all("SELECT sink_id, offsets FROM progress")}

    def begun(self, sink_id: str) -> bool:
        """Return whether a sink was ever run."""
        with self._database.read() as connection:
            return connection.scalar("SELECT epoch FROM leases WHERE sink_id = ?", sink_id) is not None

    def claim_for_drop(self, sink_id: str, *, owner: str) -> bool:
        """Lease a sink to the process that drops it; return whether that succeeded."""
        with self._database.write() as connection:
            holder = _holder(connection, sink_id)
            if holder is not None and holder.owner != owner and holder.live(self._time(connection)):
                return False
            self._lease(connection, sink_id, owner)
            return True

    def renew(self, sink_id: str, *, owner: str) -> None:
        """Renew the lease; raise SQ5202 if another process took it over."""
        for error in self.renew_all({sink_id: owner}).values():
            raise error

    def renew_all(self, owners: Mapping[str, str]) -> dict[str, LeaseLostError]:
        """Renew leases by sink id; return SQ5202 for each lease that another process took over."""
        lost: dict[str, LeaseLostError] = {}
        with self._database.write() as connection:
            until = self._time(connection) + self._lease_seconds
            leases = [*owners.items()]
            for chunk in (leases[start : start + _AT_ONCE] for start in range(0, len(leases), _AT_ONCE)):
                marks = ", ".join("?" * len(chunk))
                lease_owners = [owner for _, owner in chunk]
                if connection.update("leases", {"expires": until}, f"owner IN ({marks})", *lease_owners) != len(chunk):
                    holders = {sink_id: (_holder(connection, sink_id), owner) for sink_id, owner in chunk}
                    lost |= {
                        sink_id: _lease_lost_error(holder)
                        for sink_id, (holder, owner) in holders.items()
                        if holder is None or holder.owner != owner
                    }
        return lost

    def release(self, sink_id: str, *, owner: str) -> None:
        """Release the lease; does nothing if another owner has it."""
        with self._database.write() as connection:
            connection.update("leases", {"owner": None, "expires": 0.0}, _MINE, sink_id, owner)

    def end(self, sink_id: str) -> None:
        """End the lease of a dropped sink, even if another process holds it."""
        with self._database.write() as connection:
            connection.update("leases", {"owner": None, "expires": 0.0}, "sink_id = ?", sink_id)

    def holder(self, sink_id: str) -> Holder | None:
        """Return the holder of the sink's lease; None if no lease is valid."""
        with self._database.read() as connection:
            holder = _holder(connection, sink_id)
            return holder if holder is not None and holder.live(self._time(connection)) else None

    def is_held(self, sink_id: str) -> bool:
        """Return whether the sink's lease is valid."""
        return self.holder(sink_id) is not None

    def all_desired(self) -> dict[str, tuple[Desired, str]]:
        """Return the desired state of each sink by id, and the time of its last change."""
        with self._database.read() as connection:
            return {row.sink_id: (row.desired, row.changed_at) for row in connection.all("SELECT * FROM desired")}

    def desired(self, sink_id: str) -> Desired:
        """Return the sink's desired state; `dropped` if it no longer exists."""
        with self._database.read() as connection:
            return _desired(connection, sink_id)

    def desired_states(self, sink_ids: Collection[str]) -> dict[str, tuple[Desired, int | None]]:
        """Return the desired state and the number of the pending OPTIMIZE SINK of each sink.

        For a single sink, only its rows are read.
        """
        filter_ids = [*sink_ids] if len(sink_ids) == 1 else []
        condition = "sink_id = ?" if filter_ids else "TRUE"
        with self._database.read() as connection:
            desired = connection.all(f"SELECT sink_id, desired FROM desired WHERE {condition}", *filter_ids)
            requests = connection.all(
                f"SELECT sink_id, asked FROM maintenance WHERE asked > done AND {condition}", *filter_ids
            )
        states, numbers = ({row[0]: row[1] for row in rows} for rows in (desired, requests))
        return {sink_id: (states.get(sink_id, "dropped"), numbers.get(sink_id)) for sink_id in sink_ids}

    def set_desired(self, sink_id: str, desired: Desired) -> None:
        """Set the sink's desired state; the process that runs it follows at its next poll."""
        with self._database.write() as connection:
            write_desired_state(connection, sink_id, desired)

    def resume(self, sink_id: str) -> None:
        """Set the sink's desired state to running, unless it is being dropped."""
        with self._database.write() as connection:
            if _find_desired(connection, sink_id) != "dropped":
                write_desired_state(connection, sink_id, "running")

    def failure(self, sink_id: str) -> str | None:
        """Return the error of the sink's last run; None if it did not fail."""
        with self._database.read() as connection:
            error = connection.scalar("SELECT error FROM statuses WHERE sink_id = ? AND status = 'failed'", sink_id)
            return None if error is None else str(error)

    def status(
        self,
        sink_id: str,
        status: Status,
        *,
        owner: str | None = None,
        error: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a change of status; a change by a previous owner goes only into the history."""
        values = {"status": status, "error": error, "hint": hint, "details": _json(details)}
        at = now()
        with self._database.write() as connection:
            present = connection.first("SELECT * FROM statuses WHERE sink_id = ?", sink_id)
            unchanged = {name for name in values if present is not None and getattr(present, name) == values[name]}
            if unchanged == values.keys():
                return
            if unchanged != values.keys() - {"details"}:  # the progress of a full refresh alone would fill the history
                connection.insert("status_history", {"sink_id": sink_id, "occurred_at": at, **values})
                _delete_old_statuses(connection, sink_id)
            holder = _holder(connection, sink_id)
            if owner is not None and holder is not None and holder.owner != owner:
                return
            connection.put("statuses", "sink_id", {"sink_id": sink_id, "changed_at": at, **values})

    def committed(
        self,
        sink_id: str,
        *,
        rows: int,
        size: int,
        offsets: Mapping[str, Mapping[str, Any]],
        epoch: int,
        snapshot: int | None = None,
        lag: float | None = None,
        counts: Mapping[str, int] | None = None,
        in_spark: bool = False,
    ) -> None:
        """Add a commit to the sink's statistics and record its offsets."""
        account = {f"{name}_rows": 0 for name in _ACCOUNT} | {f"{name}_rows": n for name, n in (counts or {}).items()}
        added = {"messages": rows, "bytes": size, "commits": 1, **account}
        latest = {
            "epoch": epoch,
            "snapshot": snapshot,
            "lag": None if lag is None else round(lag, 3),
            "offsets": json.dumps(offsets),
            "committed_at": now(),
            "in_spark": int(in_spark),
        }
        with self._database.write() as connection:
            before = connection.first("SELECT * FROM progress WHERE sink_id = ?", sink_id)
            if before is not None:
                added = {name: getattr(before, name) + value for name, value in added.items()}
            connection.put("progress", "sink_id", {"sink_id": sink_id, **added, **latest})

    def measured(self, id_: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the lag of a sink by source name, or of a capture under an empty name."""
        values = {"id": id_, "figures": json.dumps(figures, sort_keys=True), "measured_at": now()}
        with self._database.write() as connection:
            connection.put("measures", "id", values)

    def commits(self, sink_id: str) -> int:
        """Return how many commits the sink has made."""
        with self._database.read() as connection:
            return int(connection.scalar("SELECT commits FROM progress WHERE sink_id = ?", sink_id) or 0)

    def compacted(self, sink_id: str, done: Compacted) -> None:
        """Add a compaction of the sink's table, or its failure, to the statistics."""
        with self._database.write() as connection:
            if done.problem is not None:
                connection.put("maintenance", "sink_id", {"sink_id": sink_id, "problem": done.problem})
                return
            before = connection.first("SELECT * FROM maintenance WHERE sink_id = ?", sink_id)
            added = {name: getattr(done, name) for name in _FOOTPRINT} | {"compactions": 1}
            if before is not None:
                added = {name: getattr(before, name) + value for name, value in added.items()}
            latest = {"compacted_at": now(), "problem": None}
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, **added, **latest})

    def ask(self, sink_id: str) -> int:
        """Request an OPTIMIZE SINK from the process that runs the sink; return the request's number."""
        with self._database.write() as connection:
            number = int(connection.scalar("SELECT asked FROM maintenance WHERE sink_id = ?", sink_id) or 0) + 1
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "asked": number})
            return number

    def optimize_request(self, sink_id: str) -> int | None:
        """Return the number of the pending OPTIMIZE SINK; None if no request is pending."""
        with self._database.read() as connection:
            number = connection.scalar("SELECT asked FROM maintenance WHERE sink_id = ? AND asked > done", sink_id)
        return None if number is None else int(number)

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        """Record the progress of the OPTIMIZE SINK with this number: `files` of `of` are processed."""
        with self._database.write() as connection:
            before = connection.scalar("SELECT outcome FROM maintenance WHERE sink_id = ?", sink_id)
            # the result of the previous request may still be unread
            outcome = json.dumps({**json.loads(before or "{}"), "so_far": [files, of]})
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "begun": number, "outcome": outcome})

    def so_far(self, sink_id: str) -> tuple[int, int]:
        """Return how many files the running OPTIMIZE SINK has processed, and of how many."""
        query = "SELECT outcome FROM maintenance WHERE sink_id = ? AND begun > done"
        with self._database.read() as connection:
            outcome = connection.scalar(query, sink_id)
        files, of = json.loads(outcome)["so_far"] if outcome is not None else (0, 0)
        return files, of

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        """Record the result of the OPTIMIZE SINK with this number, which also completes earlier requests."""
        outcome = json.dumps(asdict(done))
        with self._database.write() as connection:
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "done": number, "outcome": outcome})

    def outcome(self, sink_id: str, number: int) -> tuple[bool, Compacted | None]:
        """Return whether an OPTIMIZE SINK has begun, and its result; None while it is not finished."""
        with self._database.read() as connection:
            row = connection.first("SELECT begun, done, outcome FROM maintenance WHERE sink_id = ?", sink_id)
        if row is None:  # the sink was dropped
            return False, None
        if row.done < number:
            return row.begun >= number, None
        done = json.loads(row.outcome)
        return True, Compacted(**{field.name: done[field.name] for field in fields(Compacted)})


def write_desired_state(connection: Connection, sink_id: str, desired: Desired) -> None:
    """Write a sink's desired state in a transaction."""
    connection.put("desired", "sink_id", {"sink_id": sink_id, "desired": desired, "changed_at": now()})


def forget(connection: Connection, sink_id: str) -> None:
    """Delete all data of a dropped sink except its status history and the epoch of its lease."""
    for table in ("desired", "statuses", "progress", "maintenance"):
        connection.execute(f"DELETE FROM {table} WHERE sink_id = ?", (sink_id,))
    connection.execute("DELETE FROM measures WHERE id = ?", (sink_id,))
    forget_notes(connection, sink_id)


def _desired(connection: Connection, sink_id: str) -> Desired:
    return _find_desired(connection, sink_id) or "dropped"


def _find_desired(connection: Connection, sink_id: str) -> Desired | None:
    state: Desired | None = connection.scalar("SELECT desired FROM desired WHERE sink_id = ?", sink_id)
    return state


def _holder(connection: Connection, sink_id: str) -> Holder | None:
    row = connection.first("SELECT * FROM leases WHERE sink_id = ? AND owner IS NOT NULL", sink_id)
    if row is None:
        return None
    return Holder(row.owner, row.epoch, Process(row.host, row.pid, row.process), row.expires, connection.shared)


def _lease_lost_error(holder: Holder | None) -> LeaseLostError:
    by = f" by pid {holder.process.pid} on {holder.process.host}" if holder is not None else ""
    return LeaseLostError(
        "SQ5202",
        f"sink was taken over{by}",
        hint="This process stops. The new process continues with the sink.",
    )


def _already_running_error(process: Process) -> LeaseHeldError:
    return LeaseHeldError(
        "SQ5201",
        f"sink is already running (pid {process.pid} on {process.host})",
        hint="Stop that process, or take over the sink with --takeover.",
    )


def _delete_old_statuses(connection: Connection, sink_id: str) -> None:
    newest = "SELECT number FROM status_history WHERE sink_id = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
    oldest_kept = connection.scalar(newest, sink_id, _KEPT_CHANGES - 1)
    if oldest_kept is not None:
        connection.execute("DELETE FROM status_history WHERE sink_id = ? AND number < ?", (sink_id, oldest_kept))


def _json(details: Mapping[str, Any] | None) -> str | None:
    return None if details is None else json.dumps(details, sort_keys=True)
