"""Error codes of sinks, sources, tables and connections."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.MEANING)

CODES = {
    "SQ2301": _code(
        "The sink has no name.",
        "Write CREATE SINK name FROM ….",
    ),
    "SQ2302": _code(
        "The sink does not say how it writes.",
        "Write MODE APPEND to add rows, or KEY (…) MODE UPSERT to overwrite rows by key.",
    ),
    "SQ2303": _code(
        "A sink can only read a source, a table or a materialized view.",
        "Create a materialized view with the query, and sink from it.",
    ),
    "SQ2304": _code(
        "A column is twice in a key.",
        "Keep one of them.",
    ),
    "SQ2305": _code(
        "The values of a key column cannot be compared exactly, as with floating-point numbers and jsonb.",
        "Cast the column in a view, for instance to numeric or text, and use that one as the key.",
    ),
    "SQ2306": _code(
        (
            "An upsert sink keeps one row for each key. SinkQL must be able to prove that the key is unique, "
            "from GROUP BY, DISTINCT or the key of a source or table."
        ),
        "Use a key that the detail lists, or write KEY (…) NOT ENFORCED if you know that the key is unique.",
    ),
    "SQ2307": _code(
        "An append sink never overwrites a row, so it has no key.",
        "Write MODE UPSERT, or leave out KEY.",
    ),
    "SQ2308": _code(
        (
            "MODE APPEND writes the columns _mz_diff and _mz_timestamp for rows that can go, and the relation "
            "has a column with one of these names."
        ),
        "Rename the column in a materialized view.",
    ),
    "SQ2309": _code(
        "An interval is shorter than the shortest that the option allows.",
        "Use a longer interval, as the hint shows.",
    ),
    "SQ2310": _code(
        "Iceberg has no type for a column of the relation.",
        "Cast the column in a materialized view, for instance to text.",
    ),
    "SQ2313": _code(
        "The cluster does not exist.",
        "Create it with CREATE CLUSTER, or correct the name.",
    ),
    "SQ2320": _code(
        "The system setting enable_iceberg_sink is off.",
        "Run ALTER SYSTEM SET enable_iceberg_sink = true.",
    ),
    "SQ2321": _code(
        "No installed connector writes to a system of this kind.",
        "Use one of the kinds that the hint lists, or install the package of the connector.",
    ),
    "SQ2322": _code(
        "The path of files in S3 has no connection, or files on an AWS connection have a path that names no bucket.",
        "Write FROM FILES CONNECTION name (PATH = 's3://bucket/prefix'), or leave out CONNECTION for local files.",
    ),
    "SQ2323": _code(
        "An upsert sink overwrites rows by key, and the statement has no KEY.",
        "Write KEY (…) before MODE UPSERT, with the columns that identify a row.",
    ),
    "SQ2324": _code(
        "ENVELOPE NONE adds rows only, and the relation also changes or deletes rows.",
        "Write KEY (…) MODE UPSERT to keep the current rows, or MODE APPEND to keep every change.",
    ),
    "SQ2325": _code(
        "A notice: SinkQL relies on the key being unique, since NOT ENFORCED says so.",
        "If keys may repeat, watch the number of conflicting keys in mz_internal.mz_sink_statuses.",
    ),
    "SQ2326": _code(
        "A count that must be at least 1 is 0.",
        "Write a number of 1 or more.",
    ),
    "SQ2327": _code(
        "A pattern of file names contains a slash, which no file name has.",
        "Write a pattern of names alone, and RECURSIVE = true to read the files of subfolders.",
    ),
    "SQ2328": _code(
        "The namespace or the name of the table is an empty string.",
        "Write the name.",
    ),
    "SQ2329": _code(
        "A notice: the table gets a column of type time, which Spark cannot read.",
        "Cast the column to text in a materialized view if Spark is to read the table.",
    ),
    "SQ2330": _code(
        "FORMAT VERSION is neither 2 nor 3.",
        "Write FORMAT VERSION = 2.",
    ),
    "SQ2331": _code(
        "USING names a connection that does not lead to an object store.",
        "Name a connection to an object store, such as USING AWS CONNECTION.",
    ),
    "SQ2332": _code(
        "Sinks of this kind do not take the clause.",
        "Leave out the clause, or write what the hint says.",
    ),
    "SQ2333": _code(
        (
            "NAMESPACE or TABLE is not a name that every catalog and file system can keep: it has one of / \\ # ? % or "
            "a control character, is longer than 200 bytes, or a part of it is empty."
        ),
        "Write another name. Dots separate the levels of a namespace.",
    ),
    "SQ2335": _code(
        (
            "A sink with SNAPSHOT = false reads counts, sums or the like over a source that can delete or change rows, "
            "such as a table. A row from before the start that is deleted later is in none of them, so they would be "
            "wrong. Or it reads a table of Postgres with long values, which the server does not send again where a "
            "change leaves them as they are: those of rows from before the start would be unknown."
        ),
        "Leave out SNAPSHOT = false. The sink then begins with the rows that are there, and its counts have them all.",
    ),
    "SQ2336": _code(
        "COMPRESSION or ENCODING is given for files that are compressed within, and have their texts in UTF-8.",
        "Leave it out.",
    ),
    "SQ2337": _code(
        "A transform in PARTITION BY, or SORT BY, does not take columns of that type.",
        "Use a transform that the hint names, or another column.",
    ),
    "SQ2338": _code(
        "PARTITION BY or SORT BY has a term twice, or PARTITION BY two units of time of one column.",
        "Keep one of them.",
    ),
    "SQ2339": _code(
        "OPTIMIZE SINK names a sink that has not written to its table yet.",
        "Run the sink first.",
    ),
    "SQ2340": _code(
        "The option only has an effect when the sink, or the source, is created.",
        "Drop the sink and create it again: with other EXISTING ROWS or another BRANCH, else into a new table.",
    ),
    "SQ2341": _code(
        "ALTER SINK … SET FROM names a relation whose columns are not those of the table.",
        "Create a materialized view with the columns of the table, and set the sink to that.",
    ),
    "SQ2342": _code(
        "Another sink already writes to that table over the same connection, and not both of them add rows beside "
        "others': the two would undo or stop each other.",
        "Write another TABLE, or create both sinks with MODE APPEND and EXISTING ROWS = KEEP.",
    ),
    "SQ2346": _code(
        "BRANCH cannot be this: empty, longer than 200 bytes, or main, where sinks write without BRANCH.",
        "Write another name, or leave BRANCH out.",
    ),
    "SQ2347": _code(
        "ALTER SINK … PUBLISH names a sink that writes to main, or to something that has no branches.",
        "There is nothing to publish: what such a sink commits can be read at once.",
    ),
    "SQ2348": _code(
        "ALTER SINK … PUBLISH has moved main of the table to where the sink's branch is, or main was there already.",
        "Nothing is to be done.",
    ),
    "SQ2349": _code(
        'A column of a sink is called as a part of another one: "r.a" beside a record r with a field a.',
        "Iceberg parts names by dots. Give one of them a name without dots in a materialized view.",
    ),
    "SQ2355": _code(
        "REPLAY ERRORS names a source of which no sink keeps records that do not decode, or whose sinks do not run.",
        "Run ALTER SOURCE … SET (ON ERROR = DEAD LETTER) to have records kept. A sink that does not run puts them in "
        "when it is started.",
    ),
    "SQ2350": _code(
        "CREATE SINKS names a source of which no table is read.",
        "Create the source with FOR ALL TABLES, or tables from it with CREATE TABLE … FROM SOURCE.",
    ),
    "SQ2351": _code(
        "CREATE SINKS makes sinks that upsert by each table's key, and a table has none.",
        "Write MODE APPEND, or leave the table out and give its sink a KEY.",
    ),
    "SQ2353": _code(
        "ALTER SOURCE … SKIP accepts what a source has lost, as the message says.",
        "Run sinks that were stopped. Upsert sinks of a source from a database compute their rows again from what the "
        "server has now. All others go on with what comes next, and lack what was lost.",
    ),
    "SQ2354": _code(
        "ALTER SOURCE … SKIP names a source of which no loss is reported: neither by itself nor by a sink that failed "
        "for that.",
        "Nothing is to be done. Run a sink of the source: its error says if anything is lost.",
    ),
    "SQ2352": _code(
        "CREATE SINKS writes each table into one that is called like it.",
        "Leave out TABLE, or write TABLE PREFIX.",
    ),
    "SQ2356": _code(
        "A materialized view has a second sink. From then on it is computed once, by a job of its own, and new sinks "
        "read the changes that it gives. Sinks that have run before go on to compute the view themselves.",
        "Nothing has to be done. To have an older sink share the view as well, drop it and create it again.",
    ),
    "SQ2370": _code(
        "An index is on something else than a materialized view. Only the job of a materialized view keeps rows that "
        "others can look up.",
        "Create a materialized view, and the index on that.",
    ),
    "SQ2371": _code(
        "An index names another cluster than that of its materialized view, whose job keeps it.",
        "Leave out IN CLUSTER.",
    ),
    "SQ2372": _code(
        "An index is on a materialized view that cannot be a job of its own: nothing is kept for it, or rows of it may "
        "become dead letters.",
        "Follow the hint.",
    ),
    "SQ2374": _code(
        "DROP SINK … WITH TABLE is for sinks that write to tables, and this one writes to something else.",
        "Leave out WITH TABLE, and delete what the sink wrote to by the tools of its system.",
    ),
    "SQ2360": _code(
        "A sink of messages does not say how they are written.",
        "Write FORMAT JSON, or KEY FORMAT … VALUE FORMAT ….",
    ),
    "SQ2361": _code(
        "A topic's name is one that Kafka does not take, or it would have no partitions or no replicas.",
        "Correct TOPIC, TOPIC PARTITION COUNT or TOPIC REPLICATION FACTOR.",
    ),
    "SQ2362": _code(
        "Messages without a key have no format of keys.",
        "Write KEY (…), or FORMAT in the place of KEY FORMAT and VALUE FORMAT.",
    ),
    "SQ2363": _code(
        "Sinks cannot write messages of this format.",
        "Use a format that the hint names.",
    ),
    "SQ2364": _code(
        "FORMAT TEXT and FORMAT BYTES write one value as it is, without the name of its column: text of any type but "
        "arrays, records and maps, or bytea.",
        "Write FORMAT JSON, or sink from a materialized view of one column.",
    ),
    "SQ2366": _code(
        "Sinks write Avro by schemas that they register, under names that Avro takes.",
        "Write FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION name.",
    ),
    "SQ2367": _code(
        "EXPLAIN KEY SCHEMA and VALUE SCHEMA show what a sink registers for its messages, and there is nothing.",
        "Use them for sinks into Kafka with FORMAT AVRO.",
    ),
    "SQ2368": _code(
        "PARTITION BY gives each message a whole number; all messages of a key have to go into one partition.",
        "Write an expression of an integer type, of columns of the key if there is one.",
    ),
    "SQ2369": _code(
        (
            "A notice: two columns of the table have names that differ only in the case of letters. Iceberg keeps them "
            "apart; Spark as it is set, and Trino, look up columns without case, and cannot tell the two apart."
        ),
        "Give one of them another name in a materialized view.",
    ),
    "SQ2365": _code(
        "The headers of messages come from a column whose type is map[text => text] or map[text => bytea].",
        "Name such a column, or make one in a materialized view.",
    ),
    "SQ2401": _code(
        "Load generators make their own columns and changes, so a clause about them cannot be given.",
        "Leave the clause out.",
    ),
    "SQ2402": _code(
        "A number in the options of a load generator is outside the range that it takes.",
        "Use a number in the range that the message names.",
    ),
    "SQ2403": _code(
        "Two options of a load generator contradict each other.",
        "Change one of them, as the hint shows.",
    ),
    "SQ2405": _code(
        "The source has no end, and the statement or --once needs one.",
        "Give the source an end, such as UP TO for a load generator, add LIMIT to the query, or run without --once.",
    ),
    "SQ2410": _code(
        "A source of files does not say what format the files have.",
        "Add FORMAT JSON or FORMAT CSV WITH HEADER.",
    ),
    "SQ2411": _code(
        "A source of this kind cannot be read in this format.",
        "Use one of the formats that the hint lists.",
    ),
    "SQ2412": _code(
        "An option of FORMAT CSV has a line break, a character that is not ASCII, or not just one character.",
        "Use a single other character, as in DELIMITED BY ';'.",
    ),
    "SQ2413": _code(
        (
            "The source lists no columns, and they are not found in files: there is no file yet, INFER is false, the "
            "files are CSV without a header, or they are in S3 and the script is only compiled."
        ),
        "Write the columns with their types after the name of the source.",
    ),
    "SQ2414": _code(
        (
            "Options of FORMAT CSV contradict each other: one character has two meanings, or is in the text of NULL, "
            "or columns go by position where there is no header, or one whose names are given."
        ),
        "Choose different characters for DELIMITED BY, QUOTE and COMMENT, and a NULL AS without them.",
    ),
    "SQ2415": _code(
        "A notice: the columns of a source are those found in a sample of its files, as it declares none.",
        "Nothing needs to be done. Declare the columns if you want other types; SHOW CREATE SOURCE prints them.",
    ),
    "SQ2416": _code(
        "A CSV source has a list of columns and a list of the header's names of another length.",
        "Write as many names after HEADER as the source has columns, in the same order.",
    ),
    "SQ2417": _code(
        "A column of a files source has a type that cannot be read from files.",
        "Use one of the types that the hint lists, or text and a cast in a view.",
    ),
    "SQ2419": _code(
        "ENCODING of a files source names no encoding of texts.",
        "Use a name that Postgres or Python has, such as LATIN1, WIN1252 or SJIS.",
    ),
    "SQ2420": _code(
        "INSERT or UPDATE would give a table two rows with the same primary or unique key.",
        "Use UPDATE for the present row, or insert another key.",
    ),
    "SQ2421": _code(
        "A column that is NOT NULL would get NULL.",
        "Give it a value, or declare a DEFAULT in CREATE TABLE.",
    ),
    "SQ2422": _code(
        "A value is too large or too long for the type of its column.",
        "Use a smaller value, or create the table with a larger type.",
    ),
    "SQ2423": _code(
        "A row of INSERT has more or fewer values than the table has columns, or than the statement lists.",
        "Give one value for each column.",
    ),
    "SQ2425": _code(
        "A value cannot be assigned to a column of this type without a cast.",
        "Cast the value to the type of the column.",
    ),
    "SQ2426": _code(
        "CREATE TABLE lists no columns.",
        "List at least one column with its type.",
    ),
    "SQ2427": _code(
        "CREATE TABLE declares two primary keys.",
        "Make one of them UNIQUE.",
    ),
    "SQ2428": _code(
        "A key of a table has a column of type jsonb, which cannot be compared exactly.",
        "Keep the values that identify a row in columns of their own.",
    ),
    "SQ2429": _code(
        "Tables have no columns of this type.",
        "Use one of the types that the hint lists.",
    ),
    "SQ2430": _code(
        "A column is declared both NULL and NOT NULL.",
        "Leave out one of them.",
    ),
    "SQ2431": _code(
        "A DEFAULT refers to a column. Defaults are computed without a row.",
        "Write a constant expression, or compute the value in INSERT.",
    ),
    "SQ2432": _code(
        "Only rows of tables can be inserted, updated or deleted.",
        "Create a table, or change the rows where the source reads them.",
    ),
    "SQ2433": _code(
        "A column that is added to a table is NULL in the rows that are there, so it can have neither a "
        "constraint nor a DEFAULT.",
        "Add the column without it, and UPDATE the rows; or create another table.",
    ),
    "SQ2434": _code(
        "A notice: INSERT, UPDATE and DELETE have no effect when a script is only compiled or explained.",
        "Run the script with sinkql exec to change the rows.",
    ),
    "SQ2450": _code(
        "No installed connector reads from a system of this kind.",
        "Use one of the kinds that the hint lists, or install the package of the connector.",
    ),
    "SQ2460": _code(
        "The source has rows of its own and no tables, so it has no subsources, and no table can be created from it.",
        "Read the source itself, and leave out FOR ALL TABLES or FOR TABLES.",
    ),
    "SQ2461": _code(
        "The source has no table of this name.",
        "Name one of the tables that the hint lists.",
    ),
    "SQ2462": _code(
        "The source has several tables, and no rows of its own, so it cannot be read by its name.",
        "Read one of its subsources, or create a table of it with CREATE TABLE name FROM SOURCE source (REFERENCE …).",
    ),
    "SQ2463": _code(
        "CREATE TABLE … FROM SOURCE does not say which table of the source it reads.",
        "Add (REFERENCE name) with one of the source's tables.",
    ),
    "SQ2465": _code(
        "Two subsources of a source would have the same name, or one that of the source itself.",
        "Give one of them another name: FOR TABLES (name AS another_name).",
    ),
    "SQ2464": _code(
        "A table of a source has a clause for what the source decides, such as its columns.",
        "Leave the clause out.",
    ),
    "SQ2470": _code(
        "A format of messages does not fit the columns that are declared for them.",
        "Declare the columns that the format gives, or choose another format, as the hint says.",
    ),
    "SQ2471": _code(
        "Each message is one record, so there is none with the names of the fields.",
        "Leave out HEADER, and declare the columns in the order of the fields.",
    ),
    "SQ2466": _code(
        "The source has no tables in a schema that FOR SCHEMAS names.",
        "Name a schema of the hint, or write FOR ALL TABLES.",
    ),
    "SQ2468": _code(
        "ALTER SOURCE … DROP TABLE names something else than a table of the source.",
        "Name a table that SHOW SUBSOURCES lists for the source.",
    ),
    "SQ2469": _code(
        "What EXPOSE PROGRESS names tells how far a source is read. Queries can read it, views and sinks cannot.",
        "Query it, or `mz_internal.mz_source_progress`.",
    ),
    "SQ2478": _code(
        "A notice: a table that came later to a server is not read, as it cannot be, or its name is taken here.",
        "Run what the hint shows.",
    ),
    "SQ2467": _code(
        "Tables of several schemas have the name.",
        "Write the schema's name before it.",
    ),
    "SQ2472": _code(
        "A source from Kafka does not say which connection leads to the brokers.",
        "Write FROM KAFKA CONNECTION name (TOPIC '…').",
    ),
    "SQ2473": _code(
        "A source from Kafka has START OFFSET and START TIMESTAMP, which both say where it begins.",
        "Keep one of them.",
    ),
    "SQ2474": _code(
        "The columns of the key of a source from Kafka are named twice, or need no naming.",
        "Leave out INCLUDE KEY.",
    ),
    "SQ2475": _code(
        "A source from Kafka reads the keys of messages, and does not say what format they have.",
        "Write KEY FORMAT … VALUE FORMAT ….",
    ),
    "SQ2476": _code(
        "Debezium's changes are read in JSON and in Avro, and in no other format.",
        "Have Debezium's converter write one of them (`value.converter`), or leave out ENVELOPE DEBEZIUM.",
    ),
    "SQ2477": _code(
        "The key of the messages has a column that their rows do not have.",
        "Declare the columns that are the key: PRIMARY KEY (…) NOT ENFORCED.",
    ),
    "SQ2480": _code(
        "Messages of Avro and Protobuf do not say what is in them: their schema does.",
        "Add USING CONFLUENT SCHEMA REGISTRY CONNECTION name, or the schema itself.",
    ),
    "SQ2481": _code(
        "The columns of a source are in a schema registry, and a script that is only compiled does not ask it.",
        "Create the source with sinkql exec, or write the schema in the statement.",
    ),
    "SQ2482": _code(
        "A schema registry has no schema for the keys or the values of the topic, or none of the given id.",
        "Register one, correct the name of the topic, or name a schema by its id.",
    ),
    "SQ2483": _code(
        "The schema of the topic's messages is one of another format.",
        "Write the format that the hint names.",
    ),
    "SQ2484": _code(
        "The option says how a sink makes schemas, and a source makes none.",
        "Leave out the option.",
    ),
    "SQ2485": _code(
        "A schema is not one of its format, or has what no table can have.",
        "Correct the schema, or name another one.",
    ),
    "SQ2501": _code(
        "The connection leads to a system of another kind than the statement needs.",
        "Name a connection of the kind in the message.",
    ),
    "SQ2502": _code(
        "No installed connector connects to a system of this kind.",
        "Use one of the kinds that the hint lists, or install the package of the connector.",
    ),
    "SQ2510": _code(
        "An AWS connection has neither a role nor access keys.",
        "Give ASSUME ROLE ARN, or ACCESS KEY ID and SECRET ACCESS KEY.",
    ),
    "SQ2511": _code(
        "An AWS connection has a role and access keys. A role is assumed with the AWS credentials of the machine.",
        "Leave one of them out.",
    ),
    "SQ2512": _code(
        "An AWS connection has only one of ACCESS KEY ID and SECRET ACCESS KEY.",
        "Give both.",
    ),
    "SQ2513": _code(
        "An AWS connection names a session or an external id, and no role that they could be for.",
        "Add ASSUME ROLE ARN, or leave the option out.",
    ),
    "SQ2514": _code(
        "ASSUME ROLE ARN is not the ARN of a role.",
        "Copy it from AWS: it has the form arn:aws:iam::123456789012:role/name.",
    ),
    "SQ2515": _code(
        "The name of a role's session, or its external id, has characters that AWS does not take, or too few or many.",
        "Write it as the hint says.",
    ),
    "SQ2516": _code(
        "ENDPOINT of an AWS connection is not an http or https URL.",
        "Write it as in https://host:port.",
    ),
    "SQ2519": _code(
        "An Iceberg catalog connection does not say what kind of catalog it leads to.",
        "Add CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'.",
    ),
    "SQ2520": _code(
        "The catalog type does not exist.",
        "Use one of the types that the hint lists.",
    ),
    "SQ2527": _code(
        "URL is not an absolute URL with a host, or its scheme does not fit the catalog type.",
        "Write the URL as the hint shows it.",
    ),
    "SQ2528": _code(
        "The option exists for other catalog types, but not for this one.",
        "Leave it out, or use the options that the hint lists.",
    ),
    "SQ2530": _code(
        "A notice: the connection has no credentials.",
        "Add CREDENTIAL = SECRET name, unless the catalog needs none.",
    ),
    "SQ2531": _code(
        "WAREHOUSE is not what the catalog type takes: sql a folder on this machine, glue a place in S3, s3tablesrest "
        "a table bucket.",
        "Write it as the hint shows it; for tables in S3 use another type than sql.",
    ),
    "SQ2532": _code(
        "CREDENTIAL is given for an SQLite database, which has no users.",
        "Leave CREDENTIAL out.",
    ),
    "SQ2533": _code(
        "A connection to a REST catalog has GCP CONNECTION and CREDENTIAL, or another option of OAuth2. Its requests "
        "could have one token only.",
        "Leave out one of them: GCP CONNECTION is for BigLake, CREDENTIAL for other catalogs.",
    ),
    "SQ2534": _code(
        "GCP CONNECTION is used with another URL than that of BigLake's catalog: a token of Google's would be given "
        "away. A server on this machine is allowed, for tests.",
        "Write the URL that the hint shows, or use CREDENTIAL.",
    ),
    "SQ2535": _code(
        "The files of a catalog with GCP CONNECTION are in Google's Cloud Storage, to which an AWS connection does not "
        "lead.",
        "Leave out USING AWS CONNECTION: the service account of the catalog's connection reaches the files.",
    ),
    "SQ2540": _code(
        "The option decides what the connection leads to, so changing it would point existing sinks at another place.",
        "Create another connection, and create the sinks again with it.",
    ),
    "SQ2560": _code(
        "A connection to Kafka names no broker, or has both BROKER and BROKERS.",
        "Write BROKER 'host:9092', or BROKERS ('a:9092', 'b:9092').",
    ),
    "SQ2561": _code(
        "The address of a broker is not a host and a port.",
        "Write it as in 'host:9092'.",
    ),
    "SQ2562": _code(
        "A connection to Kafka has options of SASL that do not go with its SECURITY PROTOCOL, or lacks some.",
        "Give SASL MECHANISMS, SASL USERNAME and SASL PASSWORD, or none of them with SSL and PLAINTEXT.",
    ),
    "SQ2563": _code(
        "A connection to Kafka has a certificate that does not go with its SECURITY PROTOCOL, or half of a pair.",
        "Give SSL CERTIFICATE and SSL KEY together, and none of them without TLS.",
    ),
    "SQ2542": _code(
        "An option of a schema registry connection goes with another one, which is missing.",
        "Add the option that the hint names.",
    ),
    "SQ2818": _code(
        "The log of a source that is captured is in a bucket that LOG names, reached by the connection that "
        "AWS CONNECTION names; one of them is missing, or LOG names no bucket.",
        "Write WITH (LOG = 's3://bucket/prefix', AWS CONNECTION = name), or leave out both: the log is in the "
        "catalog's folder then.",
    ),
}
