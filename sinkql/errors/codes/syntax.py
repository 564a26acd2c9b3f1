"""Error codes of mistakes in the syntax of the SQL."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.SYNTAX)

CODES = {
    "SQ1001": _code(
        "The statement does not allow this word or sign here.",
        "Write one of the words that the message lists. The hint names the most likely one.",
    ),
    "SQ1002": _code(
        "The statement ends before it is complete.",
        "Add the part that the message expects. If a bracket is still open, the detail shows where it opens.",
    ),
    "SQ1003": _code(
        "The text begins with a word that begins no statement.",
        "Begin with CREATE, DROP, ALTER, SHOW, SELECT or another statement. `sinkql help` and `\\h` list all of them.",
    ),
    "SQ1004": _code(
        "A reserved word is used as a name.",
        "Write the name in double quotes, or choose another one.",
    ),
    "SQ1005": _code(
        "A statement begins before the previous one ends.",
        "End the previous statement with a semicolon.",
    ),
    "SQ1006": _code(
        "The text uses a form of another SQL system that SinkQL does not support.",
        "Write the form that the hint shows.",
    ),
    "SQ1007": _code(
        "A closing quote follows a word, but no quote opens it.",
        "Put a quote at both ends of the string.",
    ),
    "SQ1010": _code(
        "The script is not encoded in UTF-8.",
        "Save the file as UTF-8, or convert it with iconv.",
    ),
    "SQ1011": _code(
        "A string has no closing quote.",
        "Close the string with a single quote. Write a quote inside it twice.",
    ),
    "SQ1012": _code(
        "A comment that begins with /* is not closed. Comments nest, so each /* needs a matching */.",
        "Close the comment with */.",
    ),
    "SQ1013": _code(
        "A quoted name has no closing double quote.",
        "Close the name with a double quote. Write a double quote inside it twice.",
    ),
    "SQ1014": _code(
        "A dollar-quoted string does not end with the tag that it begins with.",
        "Close the string with the same tag, for example $$ or $body$.",
    ),
    "SQ1015": _code(
        (
            "A string E'…' has a backslash sequence that SinkQL does not know, or names a code point that is "
            "not a character."
        ),
        "Write \\uXXXX or \\UXXXXXXXX with hexadecimal digits, or \\\\ for a backslash.",
    ),
    "SQ1016": _code(
        (
            "A character is not allowed outside strings and comments, for example a typographic quote, a no-break "
            "space or NUL."
        ),
        "Replace the character as the hint shows.",
    ),
    "SQ1017": _code(
        "A name has more than 255 bytes in UTF-8.",
        "Choose a shorter name.",
    ),
    "SQ1018": _code(
        'A quoted name is empty, "." or "..".',
        "Choose another name.",
    ),
    "SQ1019": _code(
        "Brackets are nested deeper than the parser supports.",
        "Move parts of the query into views.",
    ),
    "SQ1021": _code(
        "The statement has a clause or an option twice, or in two forms with the same meaning.",
        "Keep one of them.",
    ),
    "SQ1022": _code(
        "A name has too many parts.",
        "Write database.schema.item for items, and database.schema for schemas.",
    ),
    "SQ1023": _code(
        "WITH (…) of a connection contains something other than VALIDATE = true or false.",
        "Write WITH (VALIDATE = false), or leave out WITH.",
    ),
    "SQ1024": _code(
        "The value of a secret calls a function that does not exist.",
        "Use one of the functions that the hint lists, such as env_var or file.",
    ),
    "SQ1025": _code(
        "A function in the value of a secret has the wrong number of arguments.",
        "Write the call as the hint shows.",
    ),
    "SQ1026": _code(
        "CSV WITH … COLUMNS has no whole number from 1 to 1600.",
        "Write the number of columns, as in CSV WITH 3 COLUMNS.",
    ),
    "SQ1027": _code(
        "DELIMITED BY has an empty string, more than one character, or a character that is not ASCII.",
        "Write one ASCII character, as in DELIMITED BY ';'.",
    ),
    "SQ1028": _code(
        "PARTITION BY uses an unknown transform, or a transform has the wrong arguments.",
        "Use year, month, day, hour, bucket or truncate, as in PARTITION BY (day(ts), bucket(16, id)).",
    ),
    "SQ1029": _code(
        "A statement has more words and signs than the parser accepts.",
        "Split it into several INSERT statements, or move parts of a query into views.",
    ),
}
