"""The interactive shell over `sinkql.session`, and the same as a filter.

* `terminal`: a terminal, a file or a pipe to input, until its end.
* `editor`: what happens while somebody types: prompt, history, highlighting, completion.
* `shell`: statements and commands to their effects, one after the other, with variables and timing.
* `command`: what backslash commands do.
* `background`: the process that runs the sinks, and what it tells.
* `screen`: results and errors to the terminal, a file, the pager; tables of rows.
* `setting`: what a user has set.
"""
