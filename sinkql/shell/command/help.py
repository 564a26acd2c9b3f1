"""The texts of `\\?` and `\\h`: the commands, and the statements with their syntax from the grammar."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.connector_api.registry import Registry
from sinkql.documentation import Documentation, Found
from sinkql.errors import SinkqlError, nearest
from sinkql.parser.assist.syntax_help import syntax
from sinkql.shell.screen import document
from sinkql.shell.shell import BackslashCommand


@dataclass(frozen=True, slots=True)
class Topic:
    """A statement in `\\h`: the grammar's rule, its meaning, and an example that parses."""

    name: str
    rule: str
    meaning: str
    example: str


@cache
def topics() -> tuple[Topic, ...]:
    """Return all statements in the order of their file."""
    found = tomllib.loads((files("sinkql.shell.command") / "statements.toml").read_text("utf-8"))
    return tuple(
        Topic(name, each["rule"], each["meaning"].strip(), each["example"].strip()) for name, each in found.items()
    )


def help_on_commands(actions: Iterable[BackslashCommand]) -> str:
    """Return the list of commands by groups."""
    actions = tuple(actions)
    width = max(len(action.usage) for action in actions)
    lines = []
    for group in dict.fromkeys(action.group for action in actions):
        lines.append(group)
        lines += [f"  {action.usage:<{width}}  {action.meaning}" for action in actions if action.group == group]
        lines.append("")
    lines += [
        "Keys",
        f"  {'Enter':<{width}}  run the statement if it ends with ; (else a new line)",
        f"  {'Ctrl-J, Alt-Enter':<{width}}  a new line",
        f"  {'Tab':<{width}}  complete the word, or choose from what can follow",
        f"  {'Ctrl-R':<{width}}  search the history",
        f"  {'Ctrl-C':<{width}}  cancel the statement that is typed or running",
        f"  {'Ctrl-D':<{width}}  leave the shell",
    ]
    return "\n".join(lines) + "\n"


def help_on_statement(text: str, registry: Registry, *, terminal: bool = False) -> str:
    """Return the help on a statement; for an empty text, the list of statements.

    The kinds that connectors add to the statement follow with their options: all kinds, or the kinds named after the
    statement, as in `CREATE CONNECTION ICEBERG CATALOG`. Other words are looked up in the documentation, which is
    rendered for a `terminal`. Raises SQ4037 if it has nothing about them.
    """
    wanted = " ".join(text.upper().rstrip(";").split())
    if not wanted:
        return _list(topics()) + "\nFor help on a statement use \\h STATEMENT, as in \\h CREATE SINK.\n"
    named = {topic.name: topic for topic in topics()}
    exact = named.get(wanted)
    # more words than the statement's name, as in \h DROP SINK
    longer = [topic for topic in topics() if f"{wanted} ".startswith(f"{topic.name} ")]
    if exact is not None or longer:
        found = exact if exact is not None else max(longer, key=lambda each: len(each.name))
        return _one(found, _kinds(found.name, wanted, registry))
    begun = [topic for topic in topics() if topic.name.startswith(wanted)]
    if len(begun) == 1:
        return _one(begun[0], _kinds(begun[0].name, wanted, registry))
    if begun:
        return _list(begun)
    near = nearest(wanted, tuple(named))
    answer = Documentation().find(text) if near is None else Found()
    if answer:
        return document.joined(document.markdown_of(answer), document.further_pages(answer), terminal=terminal)
    hint = f"Did you mean \\h {near}?" if near else "Run \\h to list the statements."
    raise SinkqlError("SQ4037", f"no help is available for {wanted}", hint=hint)


def _list(found: Iterable[Topic]) -> str:
    found = tuple(found)
    width = max(len(each.name) for each in found)
    return "".join(f"  {each.name:<{width}}  {each.meaning.partition('. ')[0].rstrip('.')}.\n" for each in found)


def _kinds(name: str, wanted: str, registry: Registry) -> str:
    """Return the kinds that connectors add to a statement, each with its options."""
    kinds = _offered(registry).get(name, {})
    named = [kind for kind in kinds if f"{wanted} ".endswith(f" {kind} ")]
    lines = []
    for kind in sorted(named or kinds):
        options, with_options = kinds[kind]
        lines += [f"  {kind}", *_told(options, indent=4)]
        lines += ["    in WITH (…)", *_told(with_options, indent=6)] if with_options is not None else []
    return "\n".join(["", _HEADS[name], *lines, ""]) if lines else ""


_HEADS = {
    "CREATE CONNECTION": "Types of connections, and their options",
    "CREATE SOURCE": "Kinds of sources, and their options",
    "CREATE SINK": "Kinds of sinks, and their options",
}


def _offered(registry: Registry) -> dict[str, dict[str, tuple[type | None, type | None]]]:
    """Return the dataclasses of options of each kind, WITH (…) last, by statement and kind."""
    return {
        "CREATE CONNECTION": {name: (kind.options, None) for name, kind in registry.connections.items()},
        "CREATE SOURCE": {name: (kind.options, kind.with_options) for name, kind in registry.sources.items()},
        "CREATE SINK": {name: (kind.options, kind.with_options) for name, kind in registry.sinks.items()},
    }


def _told(options: type | None, *, indent: int) -> Iterator[str]:
    known = offered(options)
    width = max((len(each.label) for each in known), default=0)
    for each in known:
        yield f"{'':{indent}}{each.label:<{width}}  {_takes(each)}"


def _takes(option: OptionHelp) -> str:
    values = " | ".join(f"'{choice}'" for choice in option.choices) or option.takes
    return ", ".join([values, *(["required"] if option.required else []), *([option.help] if option.help else [])])


def _one(found: Topic, kinds: str) -> str:
    example = "\n".join(f"  {line}" for line in found.example.splitlines())
    written = "\n".join(f"  {line}".rstrip() for line in syntax(found.rule, found.name).splitlines())
    return f"{found.name}\n{found.meaning}\n\nExample\n{example}\n{kinds}\nSyntax\n{written}\n"
