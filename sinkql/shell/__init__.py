"""The interactive shell over `sinkql.session`, which also runs files and pipes.

* `terminal`: Run the shell on a terminal, a file or a pipe, until its end.
* `editor`: The line editor: prompt, history, highlighting, completion.
* `shell`: Run statements and commands in order, with variables and timing.
* `command`: The backslash commands.
* `background`: The process that runs the sinks, and its messages.
* `screen`: Print results and errors to the terminal, a file or the pager.
* `setting`: The settings of the user.
"""
