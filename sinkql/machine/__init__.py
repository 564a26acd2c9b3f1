"""What the process takes from its machine: the time, waiting, and random numbers. It imports nothing of SinkQL.

Only these modules ask the machine for them; a rule of the linter refuses it elsewhere. A test or a simulation can
replace both, and then decides when each process runs and which ids it makes.

* `clock`: Tell the time, and wait.
* `randomness`: Make ids, and other random values.
"""
