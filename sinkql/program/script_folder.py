"""The scripts of a folder → all that is wrong with them, as one catalog: each comes after those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import MissingError, SinkqlError
from sinkql.parser import parse_each
from sinkql.planner.item.setting import DEFAULTS, plan_setting
from sinkql.planner.name import path_parts
from sinkql.program.compiler import Compiler
from sinkql.program.lint import Finding, Linter, Made
from sinkql.script.redaction import Masked, mask

Missing = Callable[[MissingError], None]


class _LaterError(Exception):
    """Say that scripts which were not read yet make what a statement misses."""

    def __init__(self, makers: frozenset[str]) -> None:
        self.makers = makers


@dataclass(slots=True, eq=False)
class _Script:
    path: str
    masked: Masked
    statements: list[ast.Statement | SinkqlError]
    names: list[frozenset[str]]
    """The last parts of the names that each statement makes."""
    unknown: bool
    """Whether it has a source whose tables only its server tells."""
    waits: frozenset[str] = frozenset()
    """The paths of scripts, one of which makes what it misses."""
    schemas: frozenset[str] = frozenset()
    """The schemas and databases that it selects: names go by those that are there."""
    linter: Linter | None = None
    done: int = 0
    """How many of its statements have been taken in."""

    def all_names(self) -> frozenset[str]:
        return frozenset(name for each in self.names for name in each)

    def makes(self, name: str) -> bool:
        return any(name in each for each in self.names[self.done :])


def lint_folder(texts: Sequence[tuple[str, str]]) -> tuple[Finding, ...]:
    """Return the findings of scripts, given by path and text, script by script, each in the order of its text.

    A script that misses what another one makes comes after that, as when they are executed in that order; where two
    need each other, their statements do. See `sinkql.program.lint.lint`, and SQ2770 for what two of them make.
    """
    registry = discover()
    folder = _Folder(registry, [_read(path, text, registry) for path, text in texts])
    folder.run()
    return tuple(folder.findings())


def _read(path: str, text: str, registry: Registry) -> _Script:
    masked = mask(text, registry.vocabulary)
    statements = list(parse_each(text, registry.vocabulary))
    reader = Linter(masked, path, Compiler(registry, {}))
    names = [_made(each, reader) for each in statements]
    schemas = frozenset(each for statement in statements for each in _selected(statement))
    return _Script(path, masked, statements, names, any(map(_all_tables, statements)), schemas=schemas)


def _selected(statement: ast.Statement | SinkqlError) -> Iterator[str]:
    """Yield the names of the schemas, or of the database, that a statement selects."""
    if isinstance(statement, ast.SetVariable | ast.AlterSystem):
        with suppress(SinkqlError):  # which is among the findings
            values = dict(plan_setting(statement).values)
            yield from path_parts(values.get("search_path", ""))
            yield from (values[name] for name in ("database",) if name in values)


def _made(statement: ast.Statement | SinkqlError, reader: Linter) -> frozenset[str]:
    """Return the last parts of the names that a statement makes, also where it does not parse."""
    match statement:
        case SinkqlError():
            seen = reader.named(statement)
            return frozenset() if seen is None else frozenset((seen,))
        case ast.Alter(action=ast.Rename(to=to)):
            return frozenset((to.value,))
        case ast.CreateSource(subsources=ast.Subsources() as wanted, name=ast.Name() as name):
            tables = ((each.name or each.upstream).parts[-1].value for each in wanted.references)
            return frozenset((name.parts[-1].value, *tables))
        case _ if isinstance(statement, ast.Create) and statement.name is not None:
            made = statement.name
            return frozenset((made.value if isinstance(made, ast.Ident) else made.parts[-1].value,))
        case _:
            return frozenset()


def _all_tables(statement: ast.Statement | SinkqlError) -> bool:
    wanted = statement.subsources if isinstance(statement, ast.CreateSource) else None
    return wanted is not None and not wanted.references


@dataclass(slots=True)
class _Folder:
    registry: Registry
    scripts: list[_Script]
    made: dict[str, Made] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    tables_unknown: bool = False
    catalog: MemoryCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = Compiler(self.registry, {}).catalog

    def run(self) -> None:
        """Take all scripts in: whole ones while that goes, then those that need each other, side by side."""
        left, moved = [*self.scripts], True
        while left and moved:
            moved, waiting = False, {each.path for each in left}
            for script in left:
                if script.waits and script.waits <= waiting:
                    continue  # nothing that it waits for has come
                if any(each.path in waiting and script.schemas & each.all_names() for each in left if each != script):
                    continue
                if self._whole(script, left):
                    moved = True
                    waiting.discard(script.path)
            left = [each for each in left if each.done < len(each.statements) or each.linter is None]
        if left:
            self._side_by_side(left)

    def findings(self) -> Iterator[Finding]:
        for script in self.scripts:
            assert script.linter is not None
            if not self.failed:
                script.linter.note_unused(self.catalog)
            yield from script.linter.in_order()

    def _whole(self, script: _Script, left: Sequence[_Script]) -> bool:
        """Take a script in; False where it waits for another one, and then nothing of it is known."""
        compiler = Compiler(self.registry, {})
        compiler.catalog = self.catalog.copy()
        linter = self._linter(script, compiler, self._later(script, left))
        try:
            for statement in script.statements:
                linter.take(statement)
        except _LaterError as later:
            script.waits = later.makers
            return False
        linter.end()
        before = {name: self.catalog.setting(name) for name in DEFAULTS}
        self.catalog = compiler.before or compiler.catalog
        self._reset(script, before)
        self._keep(script, linter)
        script.done = len(script.statements)
        return True

    def _side_by_side(self, left: Sequence[_Script]) -> None:
        """Take in scripts that need each other: each up to where it waits, then the next one."""
        compiler = Compiler(self.registry, {})
        compiler.catalog = self.catalog.copy()
        forced: list[_Script] = []

        def later(script: _Script) -> Missing:
            wait = self._later(script, left)
            return lambda error: None if script in forced else wait(error)

        linters = {script.path: self._linter(script, compiler, later(script)) for script in left}
        while waiting := [each for each in left if each.done < len(each.statements)]:
            before = sum(each.done for each in waiting)
            for script in waiting:
                self._onwards(script, linters[script.path])
            stuck = sum(each.done for each in waiting) == before
            forced[:] = [waiting[0]] if stuck else []
        for script in left:
            linters[script.path].end()
            self._keep(script, linters[script.path])
        self.catalog = compiler.before or compiler.catalog

    def _onwards(self, script: _Script, linter: Linter) -> None:
        linter.failed |= self.failed
        try:
            while script.done < len(script.statements):
                linter.take(script.statements[script.done])
                script.done += 1
                self.made.update(linter.made)
        except _LaterError:
            return
        finally:
            self.failed |= linter.failed

    def _linter(self, script: _Script, compiler: Compiler, missing: Missing) -> Linter:
        return Linter(
            script.masked,
            script.path,
            compiler,
            known=self.made,
            failed=self.failed,
            tables_unknown=self.tables_unknown,
            missing=missing,
        )

    def _later(self, script: _Script, left: Sequence[_Script]) -> Missing:
        """Return what raises where scripts that are `left` make what one misses."""

        def missing(error: MissingError) -> None:
            others = [each for each in left if each is not script and each.done < len(each.statements)]
            relation = error.message.startswith("relation ")
            makers = frozenset(each.path for each in others if each.makes(error.name) or (relation and each.unknown))
            if makers:
                raise _LaterError(makers)

        return missing

    def _keep(self, script: _Script, linter: Linter) -> None:
        script.linter = linter
        self.made.update(linter.made)
        self.failed |= linter.failed
        self.tables_unknown |= linter.tables_unknown

    def _reset(self, script: _Script, before: Mapping[str, str]) -> None:
        """Take back what a script has SET, which is for itself; ALTER SYSTEM is for all that come after it."""
        settings = dict(before)
        for each in script.statements:
            if isinstance(each, ast.AlterSystem):
                with suppress(SinkqlError):  # which is among the findings
                    settings.update(plan_setting(each).values)
        for name, value in settings.items():
            self.catalog.set(name, value)
