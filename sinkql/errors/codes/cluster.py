"""Error codes of Spark clusters elsewhere: their masters, executors, and the archive that these are given."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4050": _code(
        "No Spark master, or Kubernetes API server, answers at the address that MASTER names.",
        "Start the master, or correct MASTER and what lies between: a firewall, a name that does not resolve.",
        retryable=True,
    ),
    "SQ4051": _code(
        "The cluster has given the sinks no executor: no worker has the cores and the memory that are free, "
        "executors end as soon as they start, or they do not reach this machine. Or its master was started anew and "
        "does not know the application any more.",
        "Ask for fewer CORES and less MEMORY, or free some; set spark.driver.host in CONF to an address of this "
        "machine that executors reach. After a restart of the master sinks go on by themselves, in a new application.",
        retryable=True,
    ),
    "SQ4052": _code(
        "The executors' Python does not run SinkQL: it is not there, or its version is not the one of the Python "
        "that SinkQL runs with.",
        "Install that version on all machines of the cluster, or name it by spark.pyspark.python in CONF.",
    ),
    "SQ4053": _code(
        "A package that SinkQL needs cannot be packed for executors, because it is installed in editable mode.",
        "Install it without --editable.",
    ),
    "SQ4054": _code(
        "The archive of packages for executors cannot be written.",
        "Make room, or name another file; XDG_CACHE_HOME says where those are that a cluster makes by itself.",
    ),
    "SQ4055": _code(
        "Executors ended while they ran a batch, more often than Spark tries a task again: their machines went, or "
        "their memory ran out.",
        "Usually nothing: the sink tries the batch again, with growing pauses. If the error stays, give executors more "
        "MEMORY, and read their logs.",
        retryable=True,
    ),
    "SQ4056": _code(
        "The Kubernetes API server refuses what Spark asks for: the account may not make pods and their settings, look "
        "at them and delete them, or is not known, or a quota is used up.",
        "Give it the role of deploy/kubernetes.yaml in the namespace that spark.kubernetes.namespace in CONF names. "
        "The sinks go on by themselves.",
        retryable=True,
    ),
}
