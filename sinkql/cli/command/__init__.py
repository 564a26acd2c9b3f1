"""The commands of the command line.

Every start loads all commands. So a command imports modules that load slowly when it runs, not when it loads.

* `run`: exec, up, run, start, stop, status, demo.
* `script`: compile, init, explain, lint, fmt.
* `deploy`: plan, apply.
* `query`: preview, subscribe, shell.
* `secret`: The group of commands for secrets.
* `catalog`: The group of commands for the catalog.
* `machine`: doctor, package, completion.
* `help`: help.
"""
