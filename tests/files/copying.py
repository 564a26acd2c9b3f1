"""Postgres's COPY of a CSV file, as a state machine over its characters, and files that are difficult for it.

Transcribed from `CopyReadLineText` and `CopyReadAttributesCSV` of Postgres 18, and compared with a real server. COPY
stops at the first error. Here the record is an error, and the next record begins after its line. One case that COPY
accepts is refused here: a quote inside an unquoted field that continues after the end of the line.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from sinkql.decode.csv_options import Form

Fields = list[str | None] | None
"""The fields of a record, None if COPY refuses the record."""


def copied(data: bytes, form: Form) -> Iterator[tuple[int, bytes, Fields]]:
    """Yield each record's first line number, its bytes without the line's end, and its fields."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    end, found = _records(text, form)
    for began, raw, refused in found:
        line = 1 + text.count(end[-1:] or "\n", 0, began)
        yield line, raw.encode("latin-1"), None if refused else _fields(raw.encode("latin-1"), form)


def _records(text: str, form: Form) -> tuple[str, list[tuple[int, str, bool]]]:
    """Return the first line's end, and for each record its start, its text and whether it is refused."""
    found = []
    end, at = "", 0
    while at < len(text):
        began, quoted, escaped, refused = at, False, False, False
        if form.comment and text.startswith(form.comment, at):
            while at < len(text) and text[at] not in ((end[-1:]) or "\r\n"):
                at += 1
            if at < len(text) and not end:
                end = "\r\n" if text[at : at + 2] == "\r\n" else text[at]
                at += len(end) - 1
            at += 1
            continue
        while True:
            if at == len(text):
                stop = at
                break
            here = text[at]
            at += 1
            if form.escape != form.quote and quoted and here == form.escape:
                escaped = not escaped
            if here == form.quote and not escaped:
                quoted = not quoted
            if here != form.escape or form.escape == form.quote:
                escaped = False
            if quoted:
                continue
            if here == "\r":
                if end in ("", "\r\n") and text[at : at + 1] == "\n":
                    end, stop = "\r\n", at - 1
                    at += 1
                    break
                if end in ("", "\r"):
                    end, stop = "\r", at - 1
                    break
                refused = True
            if here == "\n":
                if end in ("", "\n"):
                    end, stop = "\n", at - 1
                    break
                refused = True
                if end == "\r\n":  # a newline alone still ends the record
                    stop = at - 1
                    break
        found.append((began, text[began:stop], refused or quoted))
    return end, found


def _fields(raw: bytes, form: Form) -> Fields:
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        return None
    if "\0" in line:
        return None
    found: list[str | None] = []
    at = 0
    while True:
        began, saw_quote, value = at, False, ""
        stop, more = len(line), False
        while at < len(line):
            here = line[at]
            at += 1
            if here == form.delimiter:
                stop, more = at - 1, True
                break
            if here != form.quote:
                value += here
                continue
            opened = at
            within, saw_quote = saw_quote or at - 1 > began, True
            while True:
                if at == len(line):
                    return None
                here = line[at]
                at += 1
                if here == form.escape and at < len(line) and line[at] in (form.escape, form.quote):
                    value += line[at]
                    at += 1
                    continue
                if here == form.quote:
                    if within and ("\n" in line[opened : at - 1] or "\r" in line[opened : at - 1]):
                        return None  # COPY accepts it, and a quote within a text joins two lines
                    break
                value += here
        found.append(None if not saw_quote and line[began:stop] == form.null else value)
        if not more:
            return found


FORMS = (
    Form(),
    Form(delimiter=";", null="NA"),
    Form(delimiter="\t", quote="'", escape="'"),
    Form(escape="\\", null="\\N"),
    Form(delimiter="|", quote="^", escape="^", comment="#"),
    Form(quote="-", escape="]", delimiter=".", comment="%"),
)
_NO_TEXT = (b"\xff", b"\0", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80")


def nasty(seed: random.Random, form: Form, *, rows: int, width: int) -> bytes:
    """Return a file with fields of all kinds: most records are plain, and COPY refuses some."""
    end = seed.choice(["\n", "\n", "\n", "\r\n", "\r\n", "\r"])
    wild = seed.choice([0.0, 0.001, 0.02, 0.3])
    parts = [b"\xef\xbb\xbf"] if seed.random() < 0.2 else []
    for _ in range(rows):
        count = width if seed.random() >= wild else seed.choice([0, 1, width - 1, width + 1])
        fields = [_field(seed, form, wild, end) for _ in range(count)]
        record = form.delimiter.join(fields).encode()
        if seed.random() < wild / 4:
            at = seed.randrange(len(record) + 1)
            record = record[:at] + seed.choice(_NO_TEXT) + record[at:]
        if form.comment and seed.random() < 0.02:
            parts.append(f"{form.comment} a comment{seed.choice(['', form.quote, form.delimiter])}{end}".encode())
        parts.append(record + (end if seed.random() >= wild / 8 else seed.choice(["\r", "\n", "\r\n"])).encode())
    data = b"".join(parts)
    return data if seed.random() < 0.7 else data.rstrip(b"\r\n")


def _field(seed: random.Random, form: Form, wild: float, end: str) -> str:
    plain = "".join(seed.choices("ab12é😀 .,;|'", k=seed.randrange(5)))
    kind = seed.random()
    if kind < 0.5:
        return "".join(each for each in plain if each not in (form.quote, form.delimiter, form.escape))
    if kind < 0.6:
        return seed.choice([form.null, "", "NULL", "\\N", "NA", "-0", "NaN", "1e300"])
    if kind < 0.6 + wild:
        return "".join(seed.choices([form.quote, form.escape, form.delimiter, "a", "\r", "\n", " ", "\ufeff"], k=4))
    pieces = [form.quote, form.delimiter, "a", "é", end, "\n", "\r", "", form.null]
    inner = "".join(seed.choices(pieces, k=seed.randrange(4)))
    if form.escape != form.quote:
        inner = inner.replace(form.escape, "")
    quoted = inner.replace(form.quote, form.escape + form.quote)
    return form.quote + quoted + form.quote if kind < 0.95 else form.quote + form.null + form.quote
