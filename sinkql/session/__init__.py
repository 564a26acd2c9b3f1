"""Statements' effects: the one object that embedders and the faces use.

* `session`: `Session`: one catalog, statements run against it, and its sinks.
* `perform`: a statement to the family that does it.
* `transaction`: statements between BEGIN and COMMIT; `naming`: names, owners and comments.
* `create`, `alter`, `drop`, `show`, `explain`: what each family of statements does.
* `running`: sinks run and watched; `roster`: what of the catalog is to run now.
* `world`: what connectors may reach the outside with.
* `change`, `query`, `inputs`: rows that change; queries that run once; the rows of items for them.
* `deploy`: scripts against the catalog: plan and apply. `doctor`: what is wrong with a machine.
* `result`, `text`: what a statement gives back; its values as text.
"""

from sinkql.session.result import Result as Result
from sinkql.session.session import Session as Session
