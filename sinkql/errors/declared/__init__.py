"""Every error code, one module a family.

SQ1: `syntax`. SQ2: `item`, `query`, `connector`, `statement`, and `unsupported` for what the dialect has but this
version does not run. SQ3: `run`. SQ4: `environment`. SQ5: `conflict`.
"""

from sinkql.errors.declared import (
    conflict,
    connector,
    environment,
    item,
    query,
    run,
    statement,
    syntax,
    unsupported,
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
    conflict.CODES,
)
