"""Error codes of items: their names, what depends on them, and their options."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2001": _code(
        (
            "A statement names an item that does not exist in this catalog, or not in the schema that the name "
            "is looked up in."
        ),
        "Create the item first, correct the name, or write it with its schema. DROP and ALTER take IF EXISTS.",
    ),
    "SQ2002": _code(
        (
            "An item of this name exists already. Sources, tables, views, sinks, connections and secrets of a "
            "schema share one set of names."
        ),
        "Choose another name, or drop the present item first; a table that is dropped loses its rows.",
    ),
    "SQ2003": _code(
        "The name belongs to an item of another kind.",
        "Use the statement for the kind that the item has, or name another item.",
    ),
    "SQ2004": _code(
        "A name refers to a schema or database that does not exist.",
        "Create it with CREATE SCHEMA or CREATE DATABASE, or correct the name.",
    ),
    "SQ2005": _code(
        "A statement would create or rename an item in a schema that belongs to the system.",
        "Choose another name, or create the item in schema public.",
    ),
    "SQ2006": _code(
        "DROP would remove something that other items use, or a schema or database that is not empty.",
        "Add CASCADE to drop those items too, or drop them first.",
    ),
    "SQ2007": _code(
        "The statement would change or drop something that SinkQL provides itself.",
        "Leave it as it is, and create an item of your own.",
    ),
    "SQ2008": _code(
        "A list of columns has the same name twice.",
        "Rename one of the columns with AS, or leave one out.",
    ),
    "SQ2009": _code(
        "A column name begins with $, which SinkQL keeps for columns of its own.",
        "Use another name.",
    ),
    "SQ2010": _code(
        "A notice: IF EXISTS found nothing to drop or alter.",
        "Nothing needs to be done.",
    ),
    "SQ2011": _code(
        "A notice: CASCADE dropped this item too.",
        "Nothing needs to be done.",
    ),
    "SQ2012": _code(
        "A notice: IF NOT EXISTS found an item of this name, with the same definition.",
        "Nothing needs to be done.",
    ),
    "SQ2013": _code(
        "A notice: IF NOT EXISTS found an item of this name, but its definition is another one.",
        "Compare the two with SHOW CREATE. To have the new definition, drop the item first or use OR REPLACE.",
    ),
    "SQ2014": _code(
        "The script is run again, and an item that it creates exists with another definition.",
        (
            "Choose another name, or drop the item first; a table that is dropped loses its rows. For a whole set of "
            "scripts, use sinkql plan and sinkql apply."
        ),
    ),
    "SQ2016": _code(
        "Items that depend on this one would no longer be valid after the change; the detail lists them and why.",
        "Change or drop the items that depend on it first.",
    ),
    "SQ2017": _code(
        "After the change an item would read from itself, directly or through other items.",
        "Read from an item that does not depend on this one.",
    ),
    "SQ2018": _code(
        "A name without a schema is created, but no schema of search_path exists in the current database.",
        "Set search_path or database to one that exists, or write the name with its schema.",
    ),
    "SQ2019": _code(
        "The name has more parts than names of this kind have.",
        "Write it with as many parts as the hint shows.",
    ),
    "SQ2064": _code(
        "SHOW … FROM or IN CLUSTER restricts a list whose items have no schema or no cluster.",
        "Leave that clause out.",
    ),
    "SQ2101": _code(
        "The option does not exist for this kind of item.",
        "Correct the name as the hint says; docs/options.md lists all options.",
    ),
    "SQ2102": _code(
        "An option is given twice.",
        "Keep one of them.",
    ),
    "SQ2103": _code(
        "The value of an option has the wrong type.",
        "Write the value as the hint shows it.",
    ),
    "SQ2104": _code(
        "An option that has no default is missing.",
        "Add the option.",
    ),
    "SQ2105": _code(
        (
            "An option of a sink is in the wrong list: options of the target belong to INTO …, options of the "
            "sink to WITH."
        ),
        "Move the option to the list that the hint names.",
    ),
    "SQ2106": _code(
        "A URL holds a password, a token or a signature, which would be stored and shown in clear.",
        "Leave it out of the URL, and create a secret of it for the option that the hint names.",
    ),
    "SQ2107": _code(
        "CONF sets a Spark setting that is a password, a key or a token, which would be stored and shown in clear.",
        "Keep it where Spark looks for it: in a Hadoop credential store, or in a file, whose setting CONF names.",
    ),
}
