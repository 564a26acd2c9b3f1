"""What runners of sinks tell and ask: leases, desired states, statuses with history, progress, kept in the catalog."""

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
_KEPT_CHANGES = 1000  # of status, a sink: older ones go
_ACCOUNT = ("read", "removed", "superseded", "filtered", "dropped", "failed", "stale")
_FOOTPRINT = ("files_before", "files_after", "bytes_before", "bytes_after")
_AT_ONCE = 500
"""Values of a statement."""
_MINE = "sink_id = ? AND owner = ?"

Desired = Literal["running", "stopped", "dropped"]
Status = Literal["starting", "running", "snapshotting", "paused", "stalled", "fenced", "stopped", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a sink's lease, under which epoch, and until when (`expires`, in seconds since 1970).

    `elsewhere` says whether its process may be on another host.
    """

    owner: str
    epoch: int
    process: Process
    expires: float
    elsewhere: bool

    def live(self, at: float) -> bool:
        """Tell whether the lease is valid: it has not expired, and its process has not ended."""
        return at < self.expires and not self.process.gone(elsewhere=self.elsewhere)


class Control:
    """Coordinate the processes that may run a sink, through the catalog. See `sinkql.runtime.batch.control`.

    Leases go by the database's clock, unless another one is given.
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
                raise _running(holder.process)
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
        """Lease a source to who captures it; return the lease's epoch, None while another live owner holds it."""
        with self._database.write() as connection:
            holder = _holder(connection, source_id)
            if holder is not None and holder.owner != owner and holder.live(self._time(connection)):
                return None
            return self._lease(connection, source_id, owner)

    def offsets(self) -> dict[str, str]:
        """Return how far sinks were at their last commits, as JSON, by their ids."""
        with self._database.read() as connection:
            return {row.sink_id: row.offsets for row in connection.all("SELECT sink_id, offsets FROM progress")}

    def begun(self, sink_id: str) -> bool:
        """Tell whether a sink was ever run."""
        with self._database.read() as connection:
            return connection.scalar("SELECT epoch FROM leases WHERE sink_id = ?", sink_id) is not None

    def claim_for_drop(self, sink_id: str, *, owner: str) -> bool:
        """Lease a sink to the one who drops it; tell whether nobody else holds it."""
        with self._database.write() as connection:
            holder = _holder(connection, sink_id)
            if holder is not None and holder.owner != owner and holder.live(self._time(connection)):
                return False
            self._lease(connection, sink_id, owner)
            return True

    def renew(self, sink_id: str, *, owner: str) -> None:
        """Renew the lease; raises SQ5202 if another process took it over."""
        for error in self.renew_all({sink_id: owner}).values():
            raise error

    def renew_all(self, owners: Mapping[str, str]) -> dict[str, LeaseLostError]:
        """Renew leases by their sinks' ids; return SQ5202 for each that another process took over."""
        lost: dict[str, LeaseLostError] = {}
        with self._database.write() as connection:
            until = self._time(connection) + self._lease_seconds
            every = [*owners.items()]
            for some in (every[start : start + _AT_ONCE] for start in range(0, len(every), _AT_ONCE)):
                marks = ", ".join("?" * len(some))
                mine = [owner for _, owner in some]
                if connection.update("leases", {"expires": until}, f"owner IN ({marks})", *mine) != len(some):
                    found = {sink_id: (_holder(connection, sink_id), owner) for sink_id, owner in some}
                    lost |= {
                        sink_id: _lost(holder)
                        for sink_id, (holder, owner) in found.items()
                        if holder is None or holder.owner != owner
                    }
        return lost

    def release(self, sink_id: str, *, owner: str) -> None:
        """Release the lease; does nothing if another owner has it."""
        with self._database.write() as connection:
            connection.update("leases", {"owner": None, "expires": 0.0}, _MINE, sink_id, owner)

    def end(self, sink_id: str) -> None:
        """End the lease of a sink that was dropped, whoever has it."""
        with self._database.write() as connection:
            connection.update("leases", {"owner": None, "expires": 0.0}, "sink_id = ?", sink_id)

    def holder(self, sink_id: str) -> Holder | None:
        """Return the holder of the sink's lease if it is valid."""
        with self._database.read() as connection:
            holder = _holder(connection, sink_id)
            return holder if holder is not None and holder.live(self._time(connection)) else None

    def is_held(self, sink_id: str) -> bool:
        """Tell whether the sink's lease is valid."""
        return self.holder(sink_id) is not None

    def wishes(self) -> dict[str, tuple[Desired, str]]:
        """Return the desired state of each sink by its id, and since when."""
        with self._database.read() as connection:
            return {row.sink_id: (row.desired, row.changed_at) for row in connection.all("SELECT * FROM desired")}

    def desired(self, sink_id: str) -> Desired:
        """Return the sink's desired state; `dropped` if it no longer exists."""
        with self._database.read() as connection:
            return _desired(connection, sink_id)

    def desired_states(self, sink_ids: Collection[str]) -> dict[str, tuple[Desired, int | None]]:
        """Return what `desired` and `optimize_request` do of many sinks; of one it reads no more than these."""
        given = [*sink_ids] if len(sink_ids) == 1 else []
        those = "sink_id = ?" if given else "TRUE"
        with self._database.read() as connection:
            desired = connection.all(f"SELECT sink_id, desired FROM desired WHERE {those}", *given)
            asked = connection.all(f"SELECT sink_id, asked FROM maintenance WHERE asked > done AND {those}", *given)
        wanted, numbers = ({row[0]: row[1] for row in rows} for rows in (desired, asked))
        return {each: (wanted.get(each, "dropped"), numbers.get(each)) for each in sink_ids}

    def set_desired(self, sink_id: str, desired: Desired) -> None:
        """Set the sink's desired state; the process that runs it follows at its next poll."""
        with self._database.write() as connection:
            wish(connection, sink_id, desired)

    def resume(self, sink_id: str) -> None:
        """Set the sink's desired state to running, unless it is being dropped."""
        with self._database.write() as connection:
            if _wished(connection, sink_id) != "dropped":
                wish(connection, sink_id, "running")

    def failure(self, sink_id: str) -> str | None:
        """Return the error that the sink's last run failed with; None where it did not fail."""
        with self._database.read() as connection:
            found = connection.scalar("SELECT error FROM statuses WHERE sink_id = ? AND status = 'failed'", sink_id)
            return None if found is None else str(found)

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
        """Record a change of status, if it is one. That of a previous owner goes into the history only."""
        found = {"status": status, "error": error, "hint": hint, "details": _json(details)}
        at = now()
        with self._database.write() as connection:
            present = connection.first("SELECT * FROM statuses WHERE sink_id = ?", sink_id)
            same = {name for name in found if present is not None and getattr(present, name) == found[name]}
            if same == found.keys():
                return
            if same != found.keys() - {"details"}:  # what a rebuild has done by now would push out all else
                connection.insert("status_history", {"sink_id": sink_id, "occurred_at": at, **found})
                _forget_old(connection, sink_id)
            holder = _holder(connection, sink_id)
            if owner is not None and holder is not None and holder.owner != owner:
                return
            connection.put("statuses", "sink_id", {"sink_id": sink_id, "changed_at": at, **found})

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
        }
        with self._database.write() as connection:
            before = connection.first("SELECT * FROM progress WHERE sink_id = ?", sink_id)
            if before is not None:
                added = {name: getattr(before, name) + value for name, value in added.items()}
            connection.put("progress", "sink_id", {"sink_id": sink_id, **added, **latest})

    def measured(self, id_: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
        """Record how far a sink is in its sources, by their names, or a capture (under no name) in its server."""
        values = {"id": id_, "figures": json.dumps(figures, sort_keys=True), "measured_at": now()}
        with self._database.write() as connection:
            connection.put("measures", "id", values)

    def commits(self, sink_id: str) -> int:
        """Return how many commits the sink has made."""
        with self._database.read() as connection:
            return int(connection.scalar("SELECT commits FROM progress WHERE sink_id = ?", sink_id) or 0)

    def compacted(self, sink_id: str, done: Compacted) -> None:
        """Add a compaction of the sink's table, or a failed one, to its statistics."""
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
        """Ask whoever runs the sink to do an OPTIMIZE SINK, and return its number."""
        with self._database.write() as connection:
            number = int(connection.scalar("SELECT asked FROM maintenance WHERE sink_id = ?", sink_id) or 0) + 1
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "asked": number})
            return number

    def optimize_request(self, sink_id: str) -> int | None:
        """Return the number of the OPTIMIZE SINK that is still to be done; None where there is none."""
        with self._database.read() as connection:
            found = connection.scalar("SELECT asked FROM maintenance WHERE sink_id = ? AND asked > done", sink_id)
        return None if found is None else int(found)

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        """Record that the OPTIMIZE SINK of this number, and all before it, have begun, and went through `files`."""
        with self._database.write() as connection:
            before = connection.scalar("SELECT outcome FROM maintenance WHERE sink_id = ?", sink_id)
            # who asked for the one before may not have read yet what that did
            outcome = json.dumps({**json.loads(before or "{}"), "so_far": [files, of]})
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "begun": number, "outcome": outcome})

    def so_far(self, sink_id: str) -> tuple[int, int]:
        """Return how many files the OPTIMIZE SINK that is being done went through, and of how many."""
        query = "SELECT outcome FROM maintenance WHERE sink_id = ? AND begun > done"
        with self._database.read() as connection:
            found = connection.scalar(query, sink_id)
        files, of = json.loads(found)["so_far"] if found is not None else (0, 0)
        return files, of

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        """Record that the OPTIMIZE SINK of this number, and all before it, are done, and what they did."""
        outcome = json.dumps(asdict(done))
        with self._database.write() as connection:
            connection.put("maintenance", "sink_id", {"sink_id": sink_id, "done": number, "outcome": outcome})

    def outcome(self, sink_id: str, number: int) -> tuple[bool, Compacted | None]:
        """Tell of an OPTIMIZE SINK whether it has begun, and what it did, None while it is not done."""
        with self._database.read() as connection:
            found = connection.first("SELECT begun, done, outcome FROM maintenance WHERE sink_id = ?", sink_id)
        if found is None:  # the sink is gone
            return False, None
        if found.done < number:
            return found.begun >= number, None
        done = json.loads(found.outcome)
        return True, Compacted(**{each.name: done[each.name] for each in fields(Compacted)})


def wish(connection: Connection, sink_id: str, desired: Desired) -> None:
    """Write a sink's desired state inside a transaction."""
    connection.put("desired", "sink_id", {"sink_id": sink_id, "desired": desired, "changed_at": now()})


def forget(connection: Connection, sink_id: str) -> None:
    """Delete everything about a dropped sink except its status history and the epoch of its lease."""
    for table in ("desired", "statuses", "progress", "maintenance"):
        connection.execute(f"DELETE FROM {table} WHERE sink_id = ?", (sink_id,))
    connection.execute("DELETE FROM measures WHERE id = ?", (sink_id,))
    forget_notes(connection, sink_id)


def _desired(connection: Connection, sink_id: str) -> Desired:
    return _wished(connection, sink_id) or "dropped"


def _wished(connection: Connection, sink_id: str) -> Desired | None:
    found: Desired | None = connection.scalar("SELECT desired FROM desired WHERE sink_id = ?", sink_id)
    return found


def _holder(connection: Connection, sink_id: str) -> Holder | None:
    row = connection.first("SELECT * FROM leases WHERE sink_id = ? AND owner IS NOT NULL", sink_id)
    if row is None:
        return None
    return Holder(row.owner, row.epoch, Process(row.host, row.pid, row.process), row.expires, connection.shared)


def _lost(holder: Holder | None) -> LeaseLostError:
    by = f" by pid {holder.process.pid} on {holder.process.host}" if holder is not None else ""
    return LeaseLostError(
        "SQ5202",
        f"sink was taken over{by}",
        hint="This process stops; the other one continues with the sink.",
    )


def _running(process: Process) -> LeaseHeldError:
    return LeaseHeldError(
        "SQ5201",
        f"sink is already running (pid {process.pid} on {process.host})",
        hint="Stop that one, or take the sink from it with --takeover.",
    )


def _forget_old(connection: Connection, sink_id: str) -> None:
    newest = "SELECT number FROM status_history WHERE sink_id = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
    oldest_kept = connection.scalar(newest, sink_id, _KEPT_CHANGES - 1)
    if oldest_kept is not None:
        connection.execute("DELETE FROM status_history WHERE sink_id = ? AND number < ?", (sink_id, oldest_kept))


def _json(details: Mapping[str, Any] | None) -> str | None:
    return None if details is None else json.dumps(details, sort_keys=True)
