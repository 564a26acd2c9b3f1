"""Error codes of Spark clusters elsewhere: their masters, executors, and the archive that these are given."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4050": _code(
        "No Spark master or Kubernetes API server answers at the address in MASTER.",
        "Start the master, correct MASTER, or check the network between: a firewall, or a name that does not resolve.",
        retryable=True,
    ),
    "SQ4051": _code(
        (
            "The cluster provides no executor. Its workers lack free cores or memory, executors end immediately, "
            "or they cannot reach this machine. Or the master restarted and no longer knows the application."
        ),
        (
            "Reduce CORES and MEMORY, or free some. Set spark.driver.host in CONF to an address of this machine "
            "that executors can reach. After a restart of the master, sinks continue in a new application."
        ),
        retryable=True,
    ),
    "SQ4052": _code(
        "The executors have no Python, or another Python version than SinkQL.",
        "Install SinkQL's Python version on all machines of the cluster, or set spark.pyspark.python in CONF.",
    ),
    "SQ4053": _code(
        "SinkQL cannot pack a package for executors, because the package is installed in editable mode.",
        "Install it without --editable.",
    ),
    "SQ4054": _code(
        "SinkQL cannot write the archive of packages for executors.",
        "Free disk space, or name another file. XDG_CACHE_HOME sets the folder of the archives that clusters create.",
    ),
    "SQ4055": _code(
        (
            "Executors ended during a batch, more often than Spark retries a task. Their machines stopped, or "
            "their memory ran out."
        ),
        (
            "Usually, you need not do anything: the sink retries the batch with growing pauses. If the error "
            "stays, raise MEMORY, and read the executors' logs."
        ),
        retryable=True,
    ),
    "SQ4056": _code(
        (
            "The Kubernetes API server refuses a request of Spark. The account is unknown or lacks rights on pods "
            "and their settings, or a quota is used up."
        ),
        "Bind the role of deploy/kubernetes.yaml in the namespace that spark.kubernetes.namespace in CONF names.",
        retryable=True,
    ),
}
