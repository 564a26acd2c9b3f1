"""What the process takes from its machine: the time, waiting, random values, and memory. It imports nothing of SinkQL.

Only these modules ask the machine for the time and for random values; a rule of the linter refuses it elsewhere. A
simulation replaces all three: it decides when each host runs, which ids it makes, and what it has read.

* `clock`: Tell the time, and wait.
* `randomness`: Make ids, and other random values.
* `cores`: Tell how many cores there are.
* `memory`: Keep what the sinks of a process have read of shared logs and tables.
"""
