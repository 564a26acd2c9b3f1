"""Error codes of items: their names, what depends on them, and their options."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2001": _code(
        "A statement names an item that does not exist in the schema where SinkQL looks for it.",
        "Create the item first, correct the name, or write it with its schema. DROP and ALTER accept IF EXISTS.",
    ),
    "SQ2002": _code(
        (
            "An item of this name already exists. Sources, tables, views, sinks, connections and secrets of a "
            "schema share one namespace."
        ),
        "Choose another name, or drop the present item first. If you drop a table, its rows are lost.",
    ),
    "SQ2003": _code(
        "The name belongs to an item of another kind.",
        "Use the statement for the kind of this item, or name another item.",
    ),
    "SQ2004": _code(
        "A name refers to a schema or database that does not exist.",
        "Create it with CREATE SCHEMA or CREATE DATABASE, or correct the name.",
    ),
    "SQ2005": _code(
        "A statement would create an item in a system schema, or rename one there.",
        "Choose another name, or create the item in schema public.",
    ),
    "SQ2006": _code(
        "DROP would remove items that others use, or a schema or database that is not empty.",
        "Add CASCADE to drop the dependent items too, or drop them first.",
    ),
    "SQ2007": _code(
        "The statement would change or drop a built-in item.",
        "Create another item and use that.",
    ),
    "SQ2008": _code(
        "A list of columns has the same name twice.",
        "Rename one of the columns with AS, or leave one out.",
    ),
    "SQ2009": _code(
        "A column name begins with $, which SinkQL reserves for internal columns.",
        "Use another name.",
    ),
    "SQ2010": _code(
        "A notice: IF EXISTS found nothing to drop or alter.",
        "You need not do anything.",
    ),
    "SQ2011": _code(
        "A notice: CASCADE dropped this item too.",
        "You need not do anything.",
    ),
    "SQ2012": _code(
        "A notice: IF NOT EXISTS found an item of this name with the same definition.",
        "You need not do anything.",
    ),
    "SQ2013": _code(
        "A notice: IF NOT EXISTS found an item of this name with another definition.",
        "Compare the two with SHOW CREATE. To get the new definition, drop the item first or use OR REPLACE.",
    ),
    "SQ2014": _code(
        "The script ran before, and an item that it creates now exists with another definition.",
        (
            "Run sinkql plan with all scripts, and then sinkql apply. It changes the item in place if it can. If you "
            "changed the item with ALTER, make the same change in the script. Otherwise choose another name, or drop "
            "the item first. If you drop a table, its rows are lost."
        ),
        symptoms=("already exists", "after alter"),
    ),
    "SQ2016": _code(
        "After the change, dependent items would no longer be valid. The detail lists them with the reasons.",
        "Change or drop the dependent items first.",
    ),
    "SQ2017": _code(
        "After the change, an item would read from itself, directly or through other items.",
        "Read from an item that does not depend on this one.",
    ),
    "SQ2018": _code(
        "A statement creates a name without a schema, but no schema of search_path exists in the current database.",
        "Set search_path or database to an existing one, or write the name with its schema.",
    ),
    "SQ2019": _code(
        "The name has more parts than names of this kind can have.",
        "Write it with the number of parts that the hint shows.",
    ),
    "SQ2064": _code(
        "SHOW … FROM or IN CLUSTER restricts a list of items that have no schema or no cluster.",
        "Leave out the clause.",
    ),
    "SQ2101": _code(
        "This kind of item has no such option.",
        "Correct the name as the hint shows. The page of options lists all of them.",
    ),
    "SQ2102": _code(
        "The statement has an option twice.",
        "Keep one of them.",
    ),
    "SQ2103": _code(
        "The value of an option has the wrong type.",
        "Write the value as the hint shows.",
    ),
    "SQ2104": _code(
        "A required option is missing.",
        "Add the option.",
    ),
    "SQ2105": _code(
        (
            "An option of a sink is in the wrong list. Options of the target belong to INTO …, options of the "
            "sink to WITH."
        ),
        "Move the option to the list that the hint names.",
    ),
    "SQ2106": _code(
        "A URL contains a password, a token or a signature. SinkQL would store and show it in clear text.",
        "Remove it from the URL. Create a secret for it, and use the option that the hint names.",
    ),
    "SQ2107": _code(
        (
            "CONF sets a Spark setting that is a password, a key or a token. SinkQL would store and show it in "
            "clear text."
        ),
        "Keep the value in a Hadoop credential store or in a file, and name that file or store in CONF.",
    ),
}
