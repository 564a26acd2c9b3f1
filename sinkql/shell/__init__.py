"""The interactive shell over `sinkql.session`, and the same as a filter.

* `terminal`: a terminal, a file or a pipe → input, until its end.
* `prompt` (with `highlight`, `complete`, `history`): the line editor.
* `piece`: input → statements and backslash commands.
* `shell`: one after the other, with variables and timing.
* `command` (with `catalog_command`, `describe`, `help`): what backslash commands do.
* `background` (with `notice`): the process that runs the sinks, and what it says.
* `screen` (with `table`, `setting`, `busy`): results and errors → the terminal, a file, the pager.
"""
