"""Generate the page of the shell from its commands, and from texts on its keys and variables."""

from __future__ import annotations

from collections.abc import Iterator

from docs.links import link
from docs.markdown_parts import bullets, code, escaped, front_matter, table
from sinkql.shell.command.command_list import COMMANDS
from sinkql.shell.setting import FORMATS

_HEAD = r"""# The shell

Look up the keys and commands of `sinkql shell`.

The shell completes words at the cursor, explains statements, runs sinks in the background and shows rows. It uses the
catalog of the working folder, or that of `sinkql --catalog FILE shell`. `\h CREATE SINK` shows the help on a statement.

```text
$ sinkql shell
SinkQL 0.1.0. \? lists commands, \h statements; Ctrl-D leaves.
sinkql=> SHOW SINKS;
```

## Keys

A statement ends with `;`. Enter then runs it. Before that, Enter begins a new line.

| key | use |
|---|---|
| Enter | Run the statement if it ends with `;`, otherwise begin a new line. In the menu, accept the choice. |
| Ctrl-J, Alt-Enter | Begin a new line. |
| Tab, Shift-Tab, arrows | Choose from the menu of words that fit at the cursor. |
| → | Accept the grey suggestion from the history. |
| ↑, ↓, Ctrl-R | Move through the history, or search it. |
| Ctrl-X Ctrl-E | Edit the statement in `$EDITOR`. |
| Ctrl-C | Discard the typed statement, or cancel the running one. Sinks continue. |
| Ctrl-D | Leave the shell. |

The prompt shows the part of a statement that is still open:

| prompt | open |
|---|---|
| `sinkql->` | a statement |
| `sinkql'>` | a string |
| `sinkql(>` | a bracket |
| `sinkql*>` | a comment |
| `sinkql=*>` | a transaction |
| `sinkql=!>` | a transaction with a failed statement |

`help`, `quit` and `exit` work without a backslash and a semicolon. `help CREATE SINK` is `\h CREATE SINK`.

The history is in the file `history` beside the catalog, which only you can read. It contains no statement with a
secret, and no `\set` of a variable whose name suggests a secret.

## Commands

A command begins with a backslash and ends with its line. A PATTERN may contain `*` for any text and `?` for any
character, as in `\ds order*`.
"""
_TAIL = r"""
`\h` lists the statements without a name. For CREATE CONNECTION, CREATE SOURCE and CREATE SINK it also shows the kinds
with their options.

Long results are shown in `$SINKQL_PAGER`, `$PAGER` or `less -SRF`.

## Variables

In SQL, `:name` is replaced by the variable's value, `:'name'` by the value as a string, and `:"name"` by the value as a
quoted name.

```text
sinkql=> \set day 2026-01-02
sinkql=> SELECT count(*) FROM orders WHERE placed_at::date = :'day';
```

## Sinks in the background

* The first `CREATE SINK` starts a process that runs all sinks of the catalog, as `sinkql up` does.
* Lines above the prompt report first commits, errors with hints, and ended sinks. `\jobs` shows the progress.
* Sinks that existed before the shell started run after `\start`.
* When you leave the shell, the process finishes the running batches and ends. The sinks continue with the next
  `\start`, `sinkql up` or `sinkql exec`.
* `\q detach` leaves the process running. `sinkql stop NAME` then stops a sink.

## Without a terminal

```sh
echo 'SHOW SINKS;' | sinkql shell
sinkql shell --format csv -c 'SELECT name, type FROM mz_sources' > sources.csv
sinkql shell report.sql
```

Results go to standard output, notices and errors to standard error. The first error ends the shell with the exit code
of that error. With `--keep-going`, the shell continues, and the first error decides the exit code. New sinks do not
run. `sinkql up` runs them.

## Completion of the command line

```sh
eval "$(sinkql completion bash)"
eval "$(sinkql completion zsh)"
sinkql completion fish | source
```

Put the line of your shell into `~/.bashrc`, `~/.zshrc` or `~/.config/fish/config.fish`. It completes commands, options,
files and the names of sinks, other items and secrets.
"""


def pages() -> dict[str, str]:
    """Return the page by its path under docs/."""
    return {"reference/shell.md": "\n".join(_parts())}


def _parts() -> Iterator[str]:
    yield front_matter("repl", "prompt", "psql", "backslash", "interactive", "history", "autocomplete")
    yield _HEAD
    for group in dict.fromkeys(each.group for each in COMMANDS):
        yield f"### Commands: {group.lower()}\n"
        mine = [each for each in COMMANDS if each.group == group]
        yield table(
            ("command", "use"),
            [(code(each.usage), escaped(f"{each.meaning[0].upper()}{each.meaning[1:]}.")) for each in mine],
        )
    yield f"Formats of rows are {', '.join(code(each) for each in FORMATS)}.\n"
    yield _TAIL.lstrip("\n")
    yield "## See also\n"
    yield bullets(
        link(path, "reference") for path in ("reference/cli.md", "sql/index.md", "reference/system-catalog.md")
    )
