"""Find the errors of the scripts of a folder as one catalog, each script after the scripts that it needs."""

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
from sinkql.program.lint import CreationSite, Finding, Linter
from sinkql.script.redaction import Masked, mask

Missing = Callable[[MissingError], None]


class _LaterError(Exception):
    """A missing item that scripts later in the order create."""

    def __init__(self, makers: frozenset[str]) -> None:
        self.makers = makers


@dataclass(slots=True, eq=False)
class _Script:
    path: str
    masked: Masked
    statements: list[ast.Statement | SinkqlError]
    names: list[frozenset[str]]
    """The last parts of the names that each statement creates."""
    unknown: bool
    """Whether it has a source whose tables only its server knows."""
    waits: frozenset[str] = frozenset()
    """The paths of the scripts that may create a missing item."""
    schemas: frozenset[str] = frozenset()
    """The schemas and databases that it selects, which resolve its names."""
    linter: Linter | None = None
    done: int = 0
    """The number of checked statements."""

    def all_names(self) -> frozenset[str]:
        return frozenset(name for statement_names in self.names for name in statement_names)

    def makes(self, name: str) -> bool:
        return any(name in statement_names for statement_names in self.names[self.done :])


def lint_folder(texts: Sequence[tuple[str, str]]) -> tuple[Finding, ...]:
    """Return the findings of scripts (path and text), grouped by script, each in the order of its text.

    A script is checked after the scripts that create its missing items. If two scripts need each other, their
    statements are interleaved. `sinkql.program.lint.lint` describes the findings; SQ2770 reports duplicate items.
    """
    registry = discover()
    folder = _Folder(registry, [_read_script(path, text, registry) for path, text in texts])
    folder.run()
    return tuple(folder.findings())


def _read_script(path: str, text: str, registry: Registry) -> _Script:
    masked = mask(text, registry.keywords)
    statements = list(parse_each(text, registry.keywords))
    reader = Linter(masked, path, Compiler(registry, {}))
    names = [_created_names(item, reader) for item in statements]
    schemas = frozenset(item for statement in statements for item in _selected_schemas(statement))
    return _Script(path, masked, statements, names, any(map(_reads_all_tables, statements)), schemas=schemas)


def _selected_schemas(statement: ast.Statement | SinkqlError) -> Iterator[str]:
    """Yield the names of the schemas or the database that a statement selects."""
    if isinstance(statement, ast.SetVariable | ast.AlterSystem):
        with suppress(SinkqlError):  # a finding reports it
            values = dict(plan_setting(statement).values)
            yield from path_parts(values.get("search_path", ""))
            yield from (values[name] for name in ("database",) if name in values)


def _created_names(statement: ast.Statement | SinkqlError, reader: Linter) -> frozenset[str]:
    """Return the last parts of the names that a statement creates, even with a syntax error."""
    match statement:
        case SinkqlError():
            created = reader.created_name(statement)
            return frozenset() if created is None else frozenset((created,))
        case ast.Alter(action=ast.Rename(to=to)):
            return frozenset((to.value,))
        case ast.CreateSource(subsources=ast.Subsources() as subsources, name=ast.Name() as name):
            tables = ((table.name or table.upstream).parts[-1].value for table in subsources.references)
            return frozenset((name.parts[-1].value, *tables))
        case _ if isinstance(statement, ast.Create) and statement.name is not None:
            target = statement.name
            return frozenset((target.value if isinstance(target, ast.Ident) else target.parts[-1].value,))
        case _:
            return frozenset()


def _reads_all_tables(statement: ast.Statement | SinkqlError) -> bool:
    subsources = statement.subsources if isinstance(statement, ast.CreateSource) else None
    return subsources is not None and not subsources.references


@dataclass(slots=True)
class _Folder:
    registry: Registry
    scripts: list[_Script]
    sites: dict[str, CreationSite] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    tables_unknown: bool = False
    catalog: MemoryCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = Compiler(self.registry, {}).catalog

    def run(self) -> None:
        """Check whole scripts as long as possible, then interleave the scripts that need each other."""
        remaining, has_progress = [*self.scripts], True
        while remaining and has_progress:
            has_progress, waiting = False, {other.path for other in remaining}
            for script in remaining:
                if script.waits and script.waits <= waiting:
                    continue  # all scripts that it waits for are still waiting
                if any(
                    other.path in waiting and script.schemas & other.all_names()
                    for other in remaining
                    if other != script
                ):
                    continue
                if self._check_whole(script, remaining):
                    has_progress = True
                    waiting.discard(script.path)
            remaining = [other for other in remaining if other.done < len(other.statements) or other.linter is None]
        if remaining:
            self._check_interleaved(remaining)

    def findings(self) -> Iterator[Finding]:
        for script in self.scripts:
            assert script.linter is not None
            if not self.failed:
                script.linter.note_unused(self.catalog)
            yield from script.linter.sorted_findings()

    def _check_whole(self, script: _Script, remaining: Sequence[_Script]) -> bool:
        """Check a script. Return False without effects if it waits for another script."""
        compiler = Compiler(self.registry, {})
        compiler.catalog = self.catalog.copy()
        linter = self._linter(script, compiler, self._missing_handler(script, remaining))
        try:
            for statement in script.statements:
                linter.check(statement)
        except _LaterError as later:
            script.waits = later.makers
            return False
        linter.finish()
        before = {name: self.catalog.setting(name) for name in DEFAULTS}
        self.catalog = compiler.before or compiler.catalog
        self._restore_settings(script, before)
        self._add_results(script, linter)
        script.done = len(script.statements)
        return True

    def _check_interleaved(self, remaining: Sequence[_Script]) -> None:
        """Check scripts that need each other: each until it waits, then the next one."""
        compiler = Compiler(self.registry, {})
        compiler.catalog = self.catalog.copy()
        forced: list[_Script] = []

        def later(script: _Script) -> Missing:
            wait = self._missing_handler(script, remaining)
            return lambda error: None if script in forced else wait(error)

        linters = {script.path: self._linter(script, compiler, later(script)) for script in remaining}
        while waiting := [entry for entry in remaining if entry.done < len(entry.statements)]:
            before = sum(entry.done for entry in waiting)
            for script in waiting:
                self._check_further(script, linters[script.path])
            is_stuck = sum(entry.done for entry in waiting) == before
            forced[:] = [waiting[0]] if is_stuck else []
        for script in remaining:
            linters[script.path].finish()
            self._add_results(script, linters[script.path])
        self.catalog = compiler.before or compiler.catalog

    def _check_further(self, script: _Script, linter: Linter) -> None:
        linter.failed |= self.failed
        try:
            while script.done < len(script.statements):
                linter.check(script.statements[script.done])
                script.done += 1
                self.sites.update(linter.sites)
        except _LaterError:
            return
        finally:
            self.failed |= linter.failed

    def _linter(self, script: _Script, compiler: Compiler, missing: Missing) -> Linter:
        return Linter(
            script.masked,
            script.path,
            compiler,
            earlier_sites=self.sites,
            failed=self.failed,
            tables_unknown=self.tables_unknown,
            missing=missing,
        )

    def _missing_handler(self, script: _Script, remaining: Sequence[_Script]) -> Missing:
        """Return a handler that raises _LaterError if remaining scripts create the missing item."""

        def missing(error: MissingError) -> None:
            others = [other for other in remaining if other is not script and other.done < len(other.statements)]
            relation = error.message.startswith("relation ")
            makers = frozenset(
                other.path for other in others if other.makes(error.name) or (relation and other.unknown)
            )
            if makers:
                raise _LaterError(makers)

        return missing

    def _add_results(self, script: _Script, linter: Linter) -> None:
        script.linter = linter
        self.sites.update(linter.sites)
        self.failed |= linter.failed
        self.tables_unknown |= linter.tables_unknown

    def _restore_settings(self, script: _Script, before: Mapping[str, str]) -> None:
        """Undo the SET statements of a script. Its ALTER SYSTEM statements stay for the next scripts."""
        settings = dict(before)
        for statement in script.statements:
            if isinstance(statement, ast.AlterSystem):
                with suppress(SinkqlError):  # a finding reports it
                    settings.update(plan_setting(statement).values)
        for name, value in settings.items():
            self.catalog.set(name, value)
