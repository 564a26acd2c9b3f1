"""The commands.

* `run`: exec, up, run, start, stop, status, demo.
* `script`: compile, explain, lint, fmt.
* `deploy`: plan, apply.
* `query`: preview, shell.
* `secret`, `catalog`: groups of commands.
* `machine`: doctor, package, completion.
* `help`: help.
"""
