"""A job's tree, and what its state holds → the tree with a line for each arrangement below its operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sinkql import physical
from sinkql.explain.job import title
from sinkql.explain.tree import Tree

Held = Mapping[str, Mapping[str, Any]]
"""What the arrangements of a job hold, by name, as `runtime.batch.figures` says."""


def with_state(root: Tree, job: physical.Job, held: Held) -> Tree:
    """Return the tree of a job with what its operators hold, and what went through them in the last batch."""
    notes: dict[str, list[str]] = {}
    for operator in job.graph.running():
        if isinstance(operator, physical.Stateful):
            notes[title(operator)] = list(_notes(operator, held))
    return _noted(root, notes)


def _noted(node: Tree, notes: Mapping[str, list[str]]) -> Tree:
    below = (_noted(part, notes) if isinstance(part, Tree) else part for part in node.parts)
    return Tree(node.title, (*notes.get(node.title, ()), *below))


def _notes(operator: physical.Stateful, held: Held) -> Iterator[str]:
    own = {name: each for name, each in held.items() if each["of"] == operator.arrangement}
    if not own:
        yield "state: not known yet"
    for name, each in own.items():
        wide = f", widest key {_rows(each['widest'])}" if each["widest"] > 1 else ""
        yield f"state {name}: {_rows(each['held_rows'])}, {each['bytes']:,} bytes, {_runs(each['runs'])}{wide}"
    last = next((each for each in own.values() if "taken" in each), None)
    if last is not None:
        yield f"last batch: {_rows(last['taken'])} taken, {last['gave']:,} given"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
