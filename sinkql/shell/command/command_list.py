"""All backslash commands, in the order that `\\?` lists them."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.script.split import Command
from sinkql.shell.command import catalog, general
from sinkql.shell.shell import BackslashCommand, Shell

_Row = tuple[tuple[str, ...], str, str, Callable[[Shell, Command, str | None], None]]

_GROUPS: dict[str, tuple[_Row, ...]] = {
    "General": (
        (("?",), "\\?", "this list", general.list_commands),
        (
            ("h", "help"),
            "\\h [WORDS]",
            "list the statements, or help on one, a code or a function",
            general.show_help,
        ),
        (("q", "quit"), "\\q [detach]", "leave; detach leaves the sinks running", general.leave),
        (("conninfo",), "\\conninfo", "the catalog, and what it contains", catalog.conninfo),
        (("!",), "\\! [COMMAND]", "run a command of the operating system", general.system),
    ),
    "Statements": (
        (("g",), "\\g", "run the statement before it, or the last one again", general.run_again),
        (("gx",), "\\gx", "the same, with one value per line", general.run_again),
        (
            ("watch",),
            "\\watch [SECONDS [TIMES]]",
            "run the statement every 2 seconds, or another interval, until Ctrl-C",
            general.watch,
        ),
        (("e", "edit"), "\\e [FILE]", "edit the last statement, or a file, in $EDITOR", general.edit),
        (("i", "include"), "\\i FILE", "run the statements and commands of a file", general.include),
        (("timing",), "\\timing [on|off]", "show how long each statement takes", general.timing),
    ),
    "Catalog": (
        (("d",), "\\d [NAME]", "all items; or columns, keys, SQL and status of one", catalog.describe),
        (("d+",), "\\d+ [NAME]", "the same, with comments and creation times; or its plan too", catalog.describe),
        (("dt",), "\\dt [PATTERN]", "tables", catalog.listing),
        (("ds",), "\\ds [PATTERN]", "sources", catalog.listing),
        (("dv",), "\\dv [PATTERN]", "views", catalog.listing),
        (("dm",), "\\dm [PATTERN]", "materialized views", catalog.listing),
        (("dk",), "\\dk [PATTERN]", "sinks, with their status", catalog.listing),
        (("dc",), "\\dc [PATTERN]", "connections", catalog.listing),
        (("dse",), "\\dse [PATTERN]", "secrets", catalog.listing),
        (("dcl",), "\\dcl [PATTERN]", "clusters", catalog.listing),
        (("dn",), "\\dn [PATTERN]", "schemas", catalog.listing),
        (("l",), "\\l [PATTERN]", "databases", catalog.listing),
        (("dx",), "\\dx", "installed types of connections, sources and sinks", catalog.listing),
    ),
    "Sinks": (
        (("jobs",), "\\jobs", "the status of the sinks", catalog.jobs),
        (("start",), "\\start [NAME …]", "run sinks in the background; all, without a name", catalog.start),
        (("stop",), "\\stop [NAME …]", "stop sinks after their batch; all, without a name", catalog.stop),
        (("log",), "\\log [NAME …]", "the history of sinks", catalog.log),
    ),
    "Output": (
        (("x",), "\\x [on|off|auto]", "one value per line; auto if a table does not fit", general.expanded),
        (("f", "format"), "\\f [FORMAT]", "table, vertical, csv, json, jsonl or markdown", general.show_as),
        (("pset",), "\\pset [SETTING VALUE]", "format, expanded, null, pager, timing", general.pset),
        (("o", "out"), "\\o [FILE]", "write results to a file, or to the screen again", general.output),
        (("echo",), "\\echo TEXT", "print a text", general.echo),
    ),
    "Variables": (
        (("set",), "\\set [NAME VALUE]", "set a variable, used as :name, :'name' or :\"name\"", general.set_variable),
        (("unset",), "\\unset NAME", "remove a variable", general.unset_variable),
    ),
}
_TAKE_STATEMENT = ("\\g", "\\gx", "\\watch", "\\e")

COMMANDS = tuple(
    BackslashCommand(names, usage, meaning, group, run, takes_statement=usage.split()[0] in _TAKE_STATEMENT)
    for group, rows in _GROUPS.items()
    for names, usage, meaning, run in rows
)
BY_NAME = {name: command for command in COMMANDS for name in command.names}
