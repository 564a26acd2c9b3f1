"""Error codes of webhooks."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_environment = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ2840": _meaning(
        "A webhook evaluates CHECK before it answers a request, and supports only a few operations there.",
        "Write the check with the functions that the hint names. Test other conditions in a view over the source.",
    ),
    "SQ2841": _meaning(
        "CHECK of a webhook has a wrong name, type or constant.",
        "Name the inputs in CHECK (WITH (…) …). A body, a header and a secret are text, or bytea with BYTES.",
    ),
    "SQ2842": _meaning(
        "A webhook needs BODY FORMAT JSON, JSON ARRAY, TEXT or BYTES, which decides its columns.",
        "Write FROM WEBHOOK BODY FORMAT …, and extract columns from the body in a view.",
    ),
    "SQ2843": _meaning(
        "Two INCLUDE columns would have the same name.",
        "Rename one of them with AS, or leave it out.",
    ),
    "SQ2844": _meaning(
        "A webhook can listen only on an address of this machine.",
        "Write an IP address: 127.0.0.1 for this machine only, 0.0.0.0 for all networks.",
    ),
    "SQ2845": _meaning(
        "MAX BODY SIZE is too large. SinkQL holds the whole body of a request in memory.",
        "Use a smaller MAX BODY SIZE.",
    ),
    "SQ2846": _meaning(
        "A notice: the message shows the URL for requests.",
        "Configure the sender with this URL.",
    ),
    "SQ2847": _meaning(
        "A notice: the source listens on an address that other machines may reach, and has no CHECK.",
        "Add a CHECK, or listen on 127.0.0.1 behind a proxy that authenticates senders.",
    ),
    "SQ4480": _environment(
        "SinkQL cannot listen on the address and port of a webhook.",
        "End the process that listens there, or use another PORT. Ports below 1024 need a privilege.",
        retryable=True,
    ),
    "SQ4481": _environment(
        "Two sources share a port but have different certificates.",
        "Use different ports, or the same certificate and key.",
        retryable=True,
    ),
    "SQ4482": _environment(
        "A certificate or key of a webhook is not valid, or the two do not belong together.",
        "Correct the secrets. Both are PEM texts, and the key has no password.",
    ),
    "SQ4483": _environment(
        (
            "Acknowledged requests are missing from the catalog's folder. Or another host received the source's "
            "requests and ended unexpectedly, so the last requests may be only in its folder. Requests in the "
            "source's log are safe."
        ),
        (
            "Restore the folder, or run SinkQL on that host. Otherwise run ALTER SOURCE … SKIP. A running `sinkql up` "
            "then starts the sinks; otherwise, run `sinkql up`. Send the missing requests again. The sinks repeat "
            "nothing."
        ),
        of_loss=True,
    ),
    "SQ4484": _environment(
        "SinkQL cannot store requests durably, so it accepts none. Senders get status 503.",
        "Free space on the disk of the catalog's folder, or repair the disk.",
        retryable=True,
    ),
    "SQ4485": _environment(
        "Another process of the same catalog receives the source's requests now.",
        "You need not do anything. This process continues when the other one ends.",
        retryable=True,
    ),
}
