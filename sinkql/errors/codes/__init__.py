"""All error codes, a module a family: SQ1 syntax, SQ2 meaning, SQ3 runs, SQ4 environment, SQ5 conflicts.

* `syntax`: SQ1: the syntax of SQL.
* `statement`: SQ2: statements, scripts and sessions.
* `item`: SQ2: items and their options.
* `query`: SQ2: queries and expressions.
* `connector`: SQ2: connections, sources and sinks of all kinds.
* `unsupported`: SQ2: parts of the dialect that this version does not run.
* `run`: SQ3: jobs that run.
* `environment`: SQ4: this machine, clusters and cloud services.
* `secret`: SQ4: secrets.
* `conflict`: SQ5: conflicts with other processes.
* `kafka`: The codes of Kafka alone.
* `postgres`: The codes of Postgres alone.
* `mysql`: The codes of MySQL and MariaDB alone.
* `webhook`: The codes of webhooks alone.
"""

from sinkql.errors.codes import (
    conflict,
    connector,
    environment,
    item,
    kafka,
    mysql,
    postgres,
    query,
    run,
    secret,
    statement,
    syntax,
    unsupported,
    webhook,
)

CODES = (
    syntax.CODES,
    item.CODES,
    query.CODES,
    connector.CODES,
    statement.CODES,
    unsupported.CODES,
    run.CODES,
    environment.CODES,
    secret.CODES,
    kafka.CODES,
    conflict.CODES,
    postgres.CODES,
    mysql.CODES,
    webhook.CODES,
)
