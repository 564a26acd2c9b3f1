"""Statements' effects: the one object that embedders and the faces use.

* `session`: `Session`: one catalog, statements run against it, and its sinks.
* `create`, `drop`, `show`, `explain`: what each family of statements does.
* `running`: sinks run and watched.
* `world`: what connectors may reach the outside with.
* `result`: what a statement gives back.
"""

from sinkql.session.result import Result as Result
from sinkql.session.session import Session as Session
