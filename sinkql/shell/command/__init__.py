"""Backslash commands.

* `command_list`: All commands, with their lines in `\\?`.
* `general`: Commands for statements, output, variables and the shell itself.
* `catalog`: Commands that show or change the state of the catalog and its sinks.
* `describe`: The listings of the `\\d` family, and the description of one item.
* `help`: The texts of `\\?` and `\\h`; `statements.toml` has the sentences and examples.
"""
