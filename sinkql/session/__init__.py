"""Statements' effects: the one object that embedders and the faces use.

* `session`: `Session`: one catalog, statements run against it, and its sinks.
* `result`: what statements use of a session.
* `dispatch`: a statement to the function that does it.
* `transaction`: statements between BEGIN and COMMIT.
* `item`: statements that create, alter and drop items, and what they may reach outside.
* `row`: rows that change; queries that run once; the rows of items for them.
* `show`: SHOW and EXPLAIN.
* `sink`: sinks run and watched.
* `deploy`: scripts against the catalog: plan and apply. `doctor`: what is wrong with a machine.
* `result`: what a statement gives back, and its values as text.
"""

from sinkql.session.result import Result as Result
from sinkql.session.session import Session as Session
