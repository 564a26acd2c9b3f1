"""Words that names of the code avoid: the glossary has another term for the idea, or they name nothing.

Only names at their binding count: definitions, parameters, fields, and targets of assignments and loops.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

DROPPED = {
    "accounts": "record accounting", "anew": "full refresh", "conductor": "scheduler", "conservation": "accounting",
    "crossed": "broadcast join", "crowd": "port connections", "desk": "capture", "door": "endpoint",
    "draft": "scaffold, staged catalog", "era": "capture epoch", "faults": "failpoints", "hole": "unchanged value",
    "holes": "unchanged values", "journal": "request log, intent log", "judge": "check evaluation",
    "lacking": "missing",
    "landing": "commit", "landed": "committed", "lane": "worker", "lanes": "workers", "leftover": "orphan files",
    "leftovers": "orphan files", "letter": "dead letter", "letters": "dead letters", "marker": "checkpoint",
    "netted": "consolidated", "netting": "consolidation", "numeral": "number format", "roll": "registry",
    "roster": "workload", "seat": "scheduled sink", "seats": "scheduled sinks", "read_counts": "task report",
    "trial": "dry run", "vocabulary": "keywords", "wished": "desired", "wishes": "desired state",
    "rebuild": "state recovery, full refresh", "rebuilding": "state recovery, full refresh",
}  # fmt: skip
"""Dropped words, with the glossary's term for the idea."""
NO_NOUNS = ("each", "found", "given", "said", "told", "made", "known", "own", "gone", "kept", "taken", "got", "came")
"""Words that name nothing if they are the whole name."""
ALLOWED = {
    ("letters", "letters"),  # a key of jobs and the suffix of a table
    ("draft", "draft"),  # an option
    ("era", "era"),  # a field of capture logs
    ("holes", "holes"),  # a field of jobs
    ("anew", "anew"),  # a field of kinds of sinks
}
"""Dropped words and the names that keep them, because stored names do not change."""
TERMS = re.compile(r"dead_?letters?", re.IGNORECASE)
"""Terms of the glossary that contain a dropped word."""
ORDINARY = {
    "letter": ("evaluate", "logical", "lowering/spark", "parser", "planner/syntax"),
    "letters": ("evaluate", "logical", "lowering/spark", "parser", "planner/syntax"),
    "era": ("evaluate", "logical", "lowering/spark"),
}
"""Dropped words, and folders where they have their ordinary meaning: characters, and years before Christ."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, except contexts; `ast.walk` takes twice as long."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            below = getattr(node, field, None)
            if isinstance(below, list):
                waiting += [each for each in below if isinstance(each, ast.AST)]
            elif isinstance(below, ast.AST) and field != "ctx":
                waiting.append(below)


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names that a module binds, with their lines."""
    for node in nodes(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def dropped_names(root: Path) -> Iterator[tuple[Path, int, str, str]]:
    """Yield the names with dropped words: file, line, name and word."""
    for path in sorted(root.rglob("*.py")):
        for line, name in bound_names(path):
            if name.strip("_") in NO_NOUNS:
                yield path, line, name, name.strip("_")
                continue
            for part in _PART.findall(TERMS.sub("", name)):
                word = part.lower()
                if word not in DROPPED or (word, name.strip("_").lower()) in ALLOWED:
                    continue
                if not any(f"/{room}/" in path.as_posix() for room in ORDINARY.get(word, ())):
                    yield path, line, name, word


def counts(root: Path) -> Counter[str]:
    """Return the number of names with each dropped word."""
    return Counter(word for *_, word in dropped_names(root))
