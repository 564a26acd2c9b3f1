"""A job as data: one sink's work, and its JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from sinkql import codec
from sinkql.logical import expression
from sinkql.logical.expression import allow_deep_trees
from sinkql.logical.function import AGGREGATES, CASTS, FUNCTIONS
from sinkql.logical.type import decoded, encoded
from sinkql.physical.graph import Copartitioned, Graph, copartitioned
from sinkql.physical.identity import plan_of
from sinkql.physical.operator import (
    VIEW,
    Aggregate,
    Arrange,
    Bound,
    Connection,
    Map,
    Operator,
    Read,
    Stateful,
    Write,
    arrangements_of,
)


class Earlier(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan that a sink had, in whose table it goes on.

    `renamed` has the names that columns have now, by those that they had, None for those that are gone. Of the columns
    `unread`, of a source by the name that offsets have, nothing but NULL may have been read under that plan: its rows
    have NULL in them. `again`: its rows are not those of the sink any more, and are computed anew from the beginning of
    the sources.
    """

    plan: str
    renamed: dict[str, str | None] = {}
    unread: tuple[tuple[str, str], ...] = ()
    again: bool = False


class StatePath(msgspec.Struct, frozen=True):
    """Where the state of a cluster's sinks is kept: a bucket, and the connection that reaches it, or a folder."""

    path: str
    connection: Connection | None = None


class Job(msgspec.Struct, frozen=True):
    """One sink's work. `texts` are the CREATE statements that origins point into, by item; `follows` the plans that the
    sink had before. `shared` has the operators that are used several times, each after those that it uses. `state` is
    where the sink's state is kept, None for the catalog's folder. `buckets` is how many parts rows are in by key, None
    for as many as the cluster has. `timeline` has the inputs that are read at ticks, by the names that offsets have,
    and the sources below each. `indexes` are what a view's job keeps of the changes that come into its log.

    A reader's options under the name `tuning` decide no rows.
    """

    sink: str
    sink_id: str
    cluster: str
    master: str
    conf: dict[str, str]
    commit_interval: timedelta
    max_rows_per_commit: int
    write: Write
    texts: dict[str, str]
    snapshot: bool = True
    follows: tuple[Earlier, ...] = ()
    shared: dict[str, Operator] = {}
    state: StatePath | None = None
    buckets: int | None = None
    timeline: dict[str, tuple[str, ...]] = {}
    indexes: tuple[Arrange, ...] = ()

    @property
    def plan(self) -> str:
        """The hash of what decides the rows that it writes."""
        return plan_of(self.write, self.shared)

    @property
    def renewable(self) -> bool:
        """Whether all rows can be computed again, and then take the place of those that are there."""
        write = self.write
        foreign = write.options.get("existing_rows") == "keep"
        return write.mode == "upsert" and not write.final and self.snapshot and not foreign

    @property
    def view(self) -> bool:
        """Whether it is that of a materialized view, whose table is a log."""
        return self.write.connector == VIEW

    @property
    def graph(self) -> Graph:
        """What gives the rows that it writes."""
        return Graph(self.write.input, self.shared)

    @property
    def copartitioned(self) -> Copartitioned | None:
        """The operator whose tasks write what they give, if there is one."""
        return copartitioned(self.write.input, [each.name for each in self.write.columns], self.write.key)

    def operators(self) -> list[Operator]:
        """Return all operators, inputs before those that use them."""
        return self.graph.operators()

    def reads(self) -> tuple[Read, ...]:
        """Return the job's sources, each once, in the order they stand in the tree."""
        found: dict[str, Read] = {}
        for operator in self.operators():
            if isinstance(operator, Read):
                found.setdefault(operator.source, operator)
        return tuple(found.values())

    def secrets(self) -> frozenset[str]:
        """Return the full names of the secrets that its connections, sources and formats take."""
        write, reads = self.write, list(self.reads())
        kept = self.state.connection if self.state is not None else None
        named = (write.connection, write.store, kept, *(each for read in reads for each in (read.connection, read.log)))
        connections = [each for each in named if each is not None]
        for each in connections:  # which grows by what they go through
            connections += each.through.values()
        options = [each.options for each in connections] + [each.options for each in reads] + [write.options]
        return frozenset(name for each in options for name in secrets_in(each))

    @property
    def timed(self) -> bool:
        """Whether its rows depend on the time of a commit."""
        return any(isinstance(operator, Bound) for operator in self.operators())

    def arrangements(self) -> frozenset[str]:
        """Return the names of what its operators keep."""
        return frozenset(name for each in self.operators() for name in arrangements_of(each))

    @property
    def remote(self) -> bool:
        """Tell whether its tasks run on other machines than the process that runs the job."""
        return not self.master.startswith("local")

    def stateful(self) -> bool:
        """Tell whether an operator of the job keeps state, or an index does."""
        return bool(self.indexes) or any(isinstance(operator, Stateful) for operator in self.operators())


_DECODER = codec.decoder(Job, decoded)
"""Made with the module: where threads decode a type at once and for the first time, msgspec 0.22 ends the process."""


def encode(job: Job) -> bytes:
    """Return the job as indented JSON; `decode` gives it back equal."""
    allow_deep_trees()
    return msgspec.json.format(msgspec.json.encode(job, enc_hook=encoded), indent=2)


def to_data(plan: Job | Graph | Operator) -> Any:
    """Return a job or operators as JSON-able data."""
    allow_deep_trees()
    return msgspec.to_builtins(plan, enc_hook=encoded)


def decode(data: bytes) -> Job:
    """Read a job from JSON; raises `msgspec.ValidationError` where it is not one."""
    allow_deep_trees()
    return _DECODER.decode(data)


def meant_otherwise(job: Job) -> str | None:
    """Return a function, cast or aggregate of a job that has another meaning version here; None where all are alike."""
    for operator in job.operators():
        if isinstance(operator, Aggregate):
            for each in operator.calls:
                if AGGREGATES.get(each.function) != each.version:
                    return each.function
        if isinstance(operator, Map):
            outputs = operator.outputs if operator.where is None else (*operator.outputs, operator.where)
            for output in outputs:
                for node in expression.walk(output.expression):
                    known = _known_version(node)
                    if known is not None and known[1] != known[2]:
                        return known[0]
    return None


def _known_version(node: expression.Expression) -> tuple[str, int, int | None] | None:
    """Return what a node calls, the version that it was planned with, and the one that is known here."""
    match node:
        case expression.Call():
            listed = FUNCTIONS.get(node.function)
            return node.function, node.version, None if listed is None else listed.version
        case expression.Cast():
            names = (node.operand.type.name, node.type.name)
            return "{} → {}".format(*names), node.version, CASTS.get(names)
        case expression.Reference() | expression.Literal() | expression.Case():
            return None


def secrets_in(data: Any) -> set[str]:
    """Return the full names of the secrets that options take: those in `{"secret": name}`."""
    match data:
        case {"secret": str(name)}:
            return {name}
        case dict():
            return {name for value in data.values() for name in secrets_in(value)}
        case list() | tuple():
            return {name for value in data for name in secrets_in(value)}
        case _:
            return set()
