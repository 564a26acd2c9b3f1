"""Backslash commands.

* `command_list`: all of them, with what `\\?` says of each.
* `general`: those of statements, output, variables and the shell itself.
* `catalog`: those that look at the catalog and its sinks.
* `describe`: the listings of the `\\d` family, and all that is known of one item.
* `help`: the texts of `\\?` and `\\h`; `statements.toml` has the sentences and examples.
"""
