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
    statements = tomllib.loads((files("sinkql.shell.command") / "statements.toml").read_text("utf-8"))
    return tuple(
        Topic(name, fields["rule"], fields["meaning"].strip(), fields["example"].strip())
        for name, fields in statements.items()
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
        topic = exact if exact is not None else max(longer, key=lambda candidate: len(candidate.name))
        return _one(topic, _kinds(topic.name, wanted, registry))
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


def _list(entries: Iterable[Topic]) -> str:
    entries = tuple(entries)
    width = max(len(topic.name) for topic in entries)
    return "".join(f"  {topic.name:<{width}}  {topic.meaning.partition('. ')[0].rstrip('.')}.\n" for topic in entries)


def _kinds(name: str, wanted: str, registry: Registry) -> str:
    """Return the kinds that connectors add to a statement, each with its options."""
    kinds = _offered(registry).get(name, {})
    named = [kind for kind in kinds if f"{wanted} ".endswith(f" {kind} ")]
    lines = []
    for kind in sorted(named or kinds):
        options, with_options = kinds[kind]
        lines += [f"  {kind}", *_option_lines(options, indent=4)]
        lines += ["    in WITH (…)", *_option_lines(with_options, indent=6)] if with_options is not None else []
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


def _option_lines(options: type | None, *, indent: int) -> Iterator[str]:
    listed = offered(options)
    width = max((len(option.label) for option in listed), default=0)
    for option in listed:
        yield f"{'':{indent}}{option.label:<{width}}  {_takes(option)}"


def _takes(option: OptionHelp) -> str:
    values = " | ".join(f"'{choice}'" for choice in option.choices) or option.takes
    return ", ".join([values, *(["required"] if option.required else []), *([option.help] if option.help else [])])


def _one(topic: Topic, kinds: str) -> str:
    example = "\n".join(f"  {line}" for line in topic.example.splitlines())
    written = "\n".join(f"  {line}".rstrip() for line in syntax(topic.rule, topic.name).splitlines())
    return f"{topic.name}\n{topic.meaning}\n\nExample\n{example}\n{kinds}\nSyntax\n{written}\n"
