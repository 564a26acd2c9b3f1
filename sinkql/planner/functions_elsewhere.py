"""The name of a function as other systems call it → the sentence with what to write here."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.errors import nearest

ELSEWHERE = {
    "ifnull": "coalesce(a, b)", "nvl": "coalesce(a, b)", "isnull": "a IS NULL", "zeroifnull": "coalesce(a, 0)",
    "nvl2": "CASE WHEN a IS NULL THEN c ELSE b END", "if": "CASE WHEN condition THEN a ELSE b END",
    "iff": "CASE WHEN condition THEN a ELSE b END", "iif": "CASE WHEN condition THEN a ELSE b END",
    "len": "length(text)", "char_len": "length(text)",
    "datalength": "octet_length(text)", "instr": "strpos(text, part)", "charindex": "strpos(text, part)",
    "locate": "strpos(text, part)", "ucase": "upper(text)", "lcase": "lower(text)", "mid": "substring(text, 1, 2)",
    "concat_string": "a || b",
    "rlike": "text ~ 'pattern'", "regexp": "text ~ 'pattern'", "contains": "strpos(text, part) > 0",
    "startswith": "text LIKE 'part%'", "endswith": "text LIKE '%part'",
    "split": "split_part(text, ',', 1)", "substring_index": "split_part(text, ',', 1)",
    "date_format": "to_char(time, 'YYYY-MM-DD')", "strftime": "to_char(time, 'YYYY-MM-DD')",
    "formatdatetime": "to_char(time, 'YYYY-MM-DD')", "format_timestamp": "to_char(time, 'YYYY-MM-DD')",
    "to_varchar": "value::text", "to_string": "value::text", "str": "value::text", "tostring": "value::text",
    "to_int": "value::integer", "to_integer": "value::integer", "int": "value::integer", "to_number": "value::numeric",
    "to_date": "text::date", "str_to_date": "text::timestamp", "strptime": "text::timestamp",
    "to_timestamp_ntz": "text::timestamp", "parse_datetime": "text::timestamp", "from_unixtime": "to_timestamp(n)",
    "unix_timestamp": "extract(epoch FROM time)", "epoch": "extract(epoch FROM time)",
    "year": "extract(year FROM time)", "month": "extract(month FROM time)", "day": "extract(day FROM time)",
    "hour": "extract(hour FROM time)", "minute": "extract(minute FROM time)", "dayofweek": "extract(dow FROM time)",
    "weekday": "extract(dow FROM time)", "week": "extract(week FROM time)", "quarter": "extract(quarter FROM time)",
    "tumble": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "window": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "hop": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "time_bucket": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "tumble_start": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "tumble_end": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "window_start": "date_bin('10 minutes', time, timestamp '2000-01-01')",
    "trunc_date": "date_trunc('day', time)", "datetrunc": "date_trunc('day', time)",
    "timestamp_trunc": "date_trunc('day', time)", "to_start_of_hour": "date_trunc('hour', time)",
    "date_add": "time + interval '1 day'", "dateadd": "time + interval '1 day'", "date_sub": "time - interval '1 day'",
    "datediff": "a - b", "date_diff": "a - b", "timestampdiff": "a - b", "months_between": "a - b",
    "get_json_object": "data->>'name'", "json_extract": "data->>'name'", "json_value": "data->>'name'",
    "json_extract_scalar": "data->>'name'", "jsonextractstring": "data->>'name'", "get_path": "data->'name'",
    "parse_json": "text::jsonb", "from_json": "text::jsonb", "to_json": "to_jsonb(value)",
    "safe_cast": "value::type", "try_cast": "value::type", "convert": "value::type", "cast_to": "value::type",
    "rand": "a column of the source", "log2": "ln(a) / ln(2)", "truncate": "trunc(a, 2)",
    "countif": "count(*) FILTER (WHERE condition)", "count_if": "count(*) FILTER (WHERE condition)",
    "sumif": "sum(a) FILTER (WHERE condition)", "anyvalue": "max(a)", "first": "min(a)", "last": "max(a)",
    "any": "max(a)", "mean": "avg(a)", "average": "avg(a)", "approx_count_distinct": "count(DISTINCT a)",
    "uniq": "count(DISTINCT a)", "group_concat": "max(a)", "getdate": "a column of the source",
    "sysdate": "a column of the source", "curdate": "a column of the source", "md5_hex": "md5(text)",
}  # fmt: skip
"""What stands in the place of a call; one-letter names are its arguments."""


def function_hint(name: str, known: Sequence[str]) -> str:
    """Return the hint for the function `name`, which is none of `known`."""
    close = nearest(name, known, cutoff=0.8)
    if close is not None and name not in ELSEWHERE:
        return f"Did you mean {close}()?"
    instead = ELSEWHERE.get(name)
    if instead is not None:
        return f"Write {instead}."
    close = nearest(name, known)
    return f"Did you mean {close}()?" if close else "Write it with the functions and operators of Postgres."
