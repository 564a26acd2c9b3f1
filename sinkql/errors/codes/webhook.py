"""Error codes of webhooks."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_meaning = partial(Code, Family.MEANING)
_environment = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ2840": _meaning(
        "CHECK of a webhook is computed for each request before it is answered, and has a small set of operations.",
        "Write the check with what the hint names; test other things in a view over the source.",
    ),
    "SQ2841": _meaning(
        "A name, a type or a constant in CHECK of a webhook does not fit.",
        "Name what the check reads in CHECK (WITH (…) …). A body, a header and a secret are text, or bytea with BYTES.",
    ),
    "SQ2842": _meaning(
        "A webhook has BODY FORMAT JSON, JSON ARRAY, TEXT or BYTES, and its columns follow from that.",
        "Write FROM WEBHOOK BODY FORMAT …, and take columns out of the body in a view.",
    ),
    "SQ2843": _meaning(
        "Two of the columns that INCLUDE makes would have one name.",
        "Give one of them another name with AS, or leave it out.",
    ),
    "SQ2844": _meaning(
        "A webhook listens on an address of this machine.",
        "Write an IP address: 127.0.0.1 for this machine alone, 0.0.0.0 for all that reach it.",
    ),
    "SQ2845": _meaning(
        "The body of a request is in memory as a whole, so its size has a bound.",
        "Use a smaller MAX BODY SIZE.",
    ),
    "SQ2846": _meaning(
        "A notice: where requests go.",
        "Give the URL to whoever sends.",
    ),
    "SQ2847": _meaning(
        "A notice: the source listens on an address that other machines may reach, and has no CHECK.",
        "Add a CHECK, or listen on 127.0.0.1 behind a proxy that checks who sends.",
    ),
    "SQ4480": _environment(
        "The address and port of a webhook cannot be listened on.",
        "End the other process that listens there, or use another PORT; ports below 1024 need a privilege.",
        retryable=True,
    ),
    "SQ4481": _environment(
        "Two sources are to listen on one port with different certificates.",
        "Give them different ports, or the same certificate and key.",
        retryable=True,
    ),
    "SQ4482": _environment(
        "A certificate or a key of a webhook is not one, or they do not belong together.",
        "Correct the secrets: both are PEM texts, and the key has no password.",
    ),
    "SQ4483": _environment(
        (
            "Requests were answered with status 200 and are not in the folder of the catalog any more; or another "
            "host took the source's requests and did not end by itself, so that its folder alone may have the last "
            "ones. What is in the source's log is not lost."
        ),
        (
            "Put the folder back, or run SinkQL on that host. If that cannot be, run ALTER SOURCE … SKIP, start the "
            "sinks again, and have what is missing sent again: they go on with what is there, and get nothing twice."
        ),
        of_loss=True,
    ),
    "SQ4484": _environment(
        "Requests cannot be made durable, so none are taken: senders get status 503.",
        "Make room on the disk of the catalog's folder, or see what is wrong with it.",
        retryable=True,
    ),
    "SQ4485": _environment(
        "Another process of the same catalog takes the source's requests now.",
        "Nothing; this process goes on when the other one has ended.",
        retryable=True,
    ),
}
