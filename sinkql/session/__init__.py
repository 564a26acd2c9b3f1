"""Run statements and sinks: the API for embedders, the command line and the shell.

* `session`: `Session` runs statements against one catalog, and its sinks.
* `transaction`: Collect the statements between BEGIN and COMMIT in a draft of the catalog.
* `dispatch`: Plan the operation of a statement, and call the function that executes it.
* `item`: Create, alter and drop items.
* `row`: Run queries and subscriptions, and change the rows of tables.
* `show`: Run SHOW and EXPLAIN.
* `result`: The result of a statement, and the protocol by which statements use the session.
* `sink`: Run, watch and maintain sinks.
* `deploy`: Plan and apply the changes from a catalog to the items that scripts describe.
* `scaffold`: Write a script that copies the tables or topics of a server into Iceberg tables.
* `doctor`: Check the machine and the catalog.
* `server_check`: Check the servers of connections, sources and clusters.
"""

from sinkql.session.result import Result as Result
from sinkql.session.session import Session as Session
