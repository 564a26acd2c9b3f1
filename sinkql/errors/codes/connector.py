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
        "The sink has no write mode.",
        "Write MODE APPEND to add rows, or KEY (…) MODE UPSERT to overwrite rows by key.",
    ),
    "SQ2303": _code(
        "A sink can read only a source, a table or a materialized view.",
        "Create a materialized view with the query, and a sink from it.",
    ),
    "SQ2304": _code(
        "A key has a column twice.",
        "Keep one of them.",
    ),
    "SQ2305": _code(
        "The values of a key column cannot be compared exactly, for example floating-point numbers or arrays.",
        "Cast the column in a view, for example to numeric or text, and use the result as the key.",
    ),
    "SQ2306": _code(
        (
            "An upsert sink keeps one row for each key, so SinkQL must prove that the key is unique. Proofs are "
            "GROUP BY, DISTINCT or the key of a source or table."
        ),
        "Use a key that the detail lists. If you know that the key is unique, write KEY (…) NOT ENFORCED.",
    ),
    "SQ2307": _code(
        "An append sink never overwrites a row, so it has no key.",
        "Write MODE UPSERT, or leave out KEY.",
    ),
    "SQ2308": _code(
        (
            "MODE APPEND adds the columns `_mz_diff` and `_mz_timestamp` to the table. The relation already has a "
            "column with one of these names."
        ),
        "Rename the column in a materialized view.",
    ),
    "SQ2309": _code(
        "An interval is shorter than the minimum of the option.",
        "Use a longer interval, as the hint shows.",
    ),
    "SQ2310": _code(
        "Iceberg has no type for a column of the relation.",
        "Cast the column in a materialized view, for example to text.",
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
        "Use one of the kinds that the hint lists, or install the connector's package.",
    ),
    "SQ2322": _code(
        "A path in S3 needs an AWS connection, and a path on an AWS connection needs a bucket.",
        "Write FROM FILES CONNECTION name (PATH = 's3://bucket/prefix'), or leave out CONNECTION for local files.",
    ),
    "SQ2323": _code(
        "An upsert sink overwrites rows by key, and the statement has no KEY.",
        "Write KEY (…) before MODE UPSERT, with the columns that identify a row.",
    ),
    "SQ2324": _code(
        "ENVELOPE NONE only adds rows, but the relation also changes or deletes rows.",
        "Write KEY (…) MODE UPSERT to keep the current rows, or MODE APPEND to keep every change.",
    ),
    "SQ2325": _code(
        "A notice: NOT ENFORCED makes SinkQL rely on a unique key without proof.",
        "If keys may repeat, watch the number of conflicting keys in mz_internal.mz_sink_statuses.",
    ),
    "SQ2326": _code(
        "A number is below the minimum of the option, or above its maximum.",
        "Write a number in the range that the message names.",
    ),
    "SQ2327": _code(
        "A pattern of file names contains a slash, but file names contain none.",
        "Write a pattern for names alone. RECURSIVE = true reads the files of subfolders.",
    ),
    "SQ2328": _code(
        "The namespace or the name of the table is an empty string.",
        "Write the name.",
    ),
    "SQ2329": _code(
        "A notice: the table gets a column of type time, which Spark cannot read.",
        "If Spark must read the table, cast the column to text in a materialized view.",
    ),
    "SQ2330": _code(
        "FORMAT VERSION is neither 2 nor 3.",
        "Write FORMAT VERSION = 2.",
    ),
    "SQ2331": _code(
        "USING names a connection to something other than an object store.",
        "Name a connection to an object store, for example USING AWS CONNECTION.",
    ),
    "SQ2332": _code(
        "Sinks of this kind do not support the clause.",
        "Leave out the clause, or write the form in the hint.",
    ),
    "SQ2333": _code(
        (
            "Some catalogs or file systems cannot keep this NAMESPACE or TABLE. It has / \\ # ? % or a control "
            "character, is longer than 200 bytes, or has an empty part."
        ),
        "Write another name. Dots separate the levels of a namespace.",
    ),
    "SQ2335": _code(
        (
            "A sink with SNAPSHOT = false skips the present rows, so it cannot compute a result that needs them. "
            "It reads an aggregate over rows that can change, or a Postgres table whose unchanged long values are "
            "not sent again."
        ),
        "Leave out SNAPSHOT = false. The sink then begins with the present rows.",
    ),
    "SQ2336": _code(
        "The files are compressed internally and store text in UTF-8, so COMPRESSION and ENCODING do not apply.",
        "Leave out the option.",
    ),
    "SQ2337": _code(
        "SORT BY or a transform in PARTITION BY does not accept columns of this type.",
        "Use a transform that the hint names, or another column.",
    ),
    "SQ2338": _code(
        "PARTITION BY or SORT BY has a term twice, or PARTITION BY has two units of time for one column.",
        "Keep one of them.",
    ),
    "SQ2339": _code(
        "A notice: OPTIMIZE SINK names a sink that has not written to its table yet.",
        "Run the sink first.",
    ),
    "SQ2340": _code(
        "The option has an effect only when you create the sink or source.",
        "Drop the sink and create it again. Use another BRANCH, other EXISTING ROWS or a new table.",
    ),
    "SQ2341": _code(
        "ALTER SINK … SET FROM names a relation with other columns than the table.",
        "Create a materialized view with the columns of the table, and set the sink to that view.",
    ),
    "SQ2342": _code(
        (
            "Another sink already writes to this table over the same connection. The two sinks would overwrite or "
            "stop each other."
        ),
        "Write another TABLE, or create both sinks with MODE APPEND and EXISTING ROWS = KEEP.",
    ),
    "SQ2346": _code(
        "BRANCH is empty, longer than 200 bytes, or main. Sinks without BRANCH write to main.",
        "Write another name, or leave out BRANCH.",
    ),
    "SQ2347": _code(
        "ALTER SINK … PUBLISH names a sink that writes to main, or to a system without branches.",
        "You need not publish it. Readers see its commits immediately.",
    ),
    "SQ2348": _code(
        (
            "A notice: after ALTER SINK … PUBLISH, main of the table is at the sink's branch. It may have been "
            "there before."
        ),
        "You need not do anything.",
    ),
    "SQ2349": _code(
        (
            'A column has the name of another column\'s part: "r.a" beside a record r with a field a. Iceberg '
            "separates parts of names by dots."
        ),
        "Rename one of the columns in a materialized view.",
    ),
    "SQ2355": _code(
        "A notice: REPLAY ERRORS names a source whose sinks keep no dead letters, or do not run.",
        "Run ALTER SOURCE … SET (ON ERROR = DEAD LETTER) to keep records. A stopped sink replays them when it starts.",
    ),
    "SQ2350": _code(
        "CREATE SINKS names a source without tables.",
        "Create the source with FOR ALL TABLES, or tables from it with CREATE TABLE … FROM SOURCE.",
    ),
    "SQ2351": _code(
        "CREATE SINKS upserts by each table's key, and one table has no key.",
        "Write MODE APPEND, or leave out the table and create a sink with a KEY for it.",
    ),
    "SQ2353": _code(
        "A notice: ALTER SOURCE … SKIP accepts the loss that the message describes.",
        (
            "Start the stopped sinks. Upsert sinks of a database source do a full refresh from the server's "
            "current rows. All other sinks continue with the next change and lack the lost ones."
        ),
    ),
    "SQ2354": _code(
        (
            "A notice: ALTER SOURCE … SKIP names a source without a known loss. Neither the source nor a failed "
            "sink reports one."
        ),
        "You need not do anything. Run a sink of the source: if changes are lost, its error says so.",
    ),
    "SQ2352": _code(
        "CREATE SINKS writes each table into a table of the same name, so TABLE does not apply.",
        "Leave out TABLE, or write TABLE PREFIX.",
    ),
    "SQ2356": _code(
        (
            "A notice: a materialized view has a second sink, so a separate job now computes it once for all new "
            "sinks. Sinks that ran before continue to compute the view themselves."
        ),
        "You need not do anything. To make an older sink share the view, drop it and create it again.",
    ),
    "SQ2370": _code(
        (
            "An index is on an item that is no materialized view. Only the job of a materialized view keeps rows "
            "for lookups."
        ),
        "Create a materialized view, and an index on it.",
    ),
    "SQ2371": _code(
        "An index names another cluster than its materialized view, whose job maintains the index.",
        "Leave out IN CLUSTER.",
    ),
    "SQ2372": _code(
        (
            "No separate job can compute this materialized view, so it cannot have an index. It has no state, or "
            "some of its rows may become dead letters."
        ),
        "Do what the hint says.",
    ),
    "SQ2374": _code(
        "DROP SINK … WITH TABLE is for sinks that write to tables, and this sink writes to something else.",
        "Leave out WITH TABLE, and delete the target with the tools of its system.",
    ),
    "SQ2360": _code(
        "A sink that writes messages has no format.",
        "Write FORMAT JSON, or KEY FORMAT … VALUE FORMAT ….",
    ),
    "SQ2361": _code(
        "Kafka does not allow this topic name, or the topic would have no partitions or no replicas.",
        "Correct TOPIC, TOPIC PARTITION COUNT or TOPIC REPLICATION FACTOR.",
    ),
    "SQ2362": _code(
        "The messages have no key, so KEY FORMAT does not apply.",
        "Write KEY (…), or FORMAT instead of KEY FORMAT and VALUE FORMAT.",
    ),
    "SQ2363": _code(
        "Sinks cannot write messages of this format.",
        "Use a format that the hint names.",
    ),
    "SQ2364": _code(
        (
            "FORMAT TEXT and FORMAT BYTES write exactly one column, without its name. The column is bytea, or of "
            "any type except arrays, records and maps."
        ),
        "Write FORMAT JSON, or a sink from a materialized view of one column.",
    ),
    "SQ2366": _code(
        "Sinks register the Avro schemas that they write, with names that Avro allows.",
        "Write FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION name.",
    ),
    "SQ2367": _code(
        "EXPLAIN KEY SCHEMA and VALUE SCHEMA show the schemas that a sink registers, and this sink registers none.",
        "Use them for sinks into Kafka with FORMAT AVRO.",
    ),
    "SQ2368": _code(
        "PARTITION BY needs a whole number for each message, and all messages of a key must have the same one.",
        "Write an expression of an integer type. If the sink has a key, use only key columns.",
    ),
    "SQ2375": _code(
        (
            "A notice: the catalog is on a server, and each commit waits for its answers. That often takes longer than "
            "an interval below one second, so commits are further apart."
        ),
        "Use COMMIT INTERVAL = '1s' or more.",
    ),
    "SQ2369": _code(
        (
            "A notice: two columns differ only in letter case. Iceberg distinguishes them, but Trino and "
            "Spark's defaults do not."
        ),
        "Rename one of them in a materialized view.",
    ),
    "SQ2365": _code(
        "HEADERS needs a column of type map[text => text] or map[text => bytea].",
        "Name a column of this type, or create one in a materialized view.",
    ),
    "SQ2401": _code(
        "Load generators define their columns and changes, so the statement cannot have this clause.",
        "Leave out the clause.",
    ),
    "SQ2402": _code(
        "A number in the options of a load generator is out of range.",
        "Use a number in the range that the message names.",
    ),
    "SQ2403": _code(
        "Two options of a load generator contradict each other.",
        "Change one of them, as the hint shows.",
    ),
    "SQ2405": _code(
        "The source has no end, and the statement or --once needs one.",
        "Add an end, for example UP TO for a load generator or LIMIT for the query, or run without --once.",
    ),
    "SQ2410": _code(
        "A files source has no format.",
        "Add FORMAT JSON or FORMAT CSV WITH HEADER.",
    ),
    "SQ2411": _code(
        "Sources of this kind do not support this format.",
        "Use one of the formats that the hint lists.",
    ),
    "SQ2412": _code(
        "An option of FORMAT CSV has a line break, a character that is not ASCII, or several characters.",
        "Use another single character, as in DELIMITED BY ';'.",
    ),
    "SQ2413": _code(
        (
            "The source lists no columns, and SinkQL cannot infer them from files. There is no file yet, INFER is "
            "false, a CSV file has no header, or the script is only compiled."
        ),
        "Write the columns with their types after the name of the source.",
    ),
    "SQ2414": _code(
        (
            "Options of FORMAT CSV contradict each other. One character has two meanings or is part of NULL AS, "
            "or the options for headers do not fit together."
        ),
        "Choose different characters for DELIMITED BY, QUOTE and COMMENT, and a NULL AS without them.",
    ),
    "SQ2415": _code(
        "A notice: the source declares no columns, so SinkQL inferred them from a sample of its files.",
        (
            "You need not do anything. To use other types, declare the columns. SHOW CREATE SOURCE prints the "
            "inferred ones."
        ),
    ),
    "SQ2416": _code(
        "A CSV source lists columns and header names, but not the same number of both.",
        "Write one header name for each column, in the same order.",
    ),
    "SQ2417": _code(
        "Files cannot supply a column of this type.",
        "Use one of the types that the hint lists, or text and a cast in a view.",
    ),
    "SQ2419": _code(
        "ENCODING of a files source names no known text encoding.",
        "Use a name that Postgres or Python knows, for example LATIN1, WIN1252 or SJIS.",
    ),
    "SQ2420": _code(
        "After the INSERT or UPDATE, a table would have two rows with the same primary or unique key.",
        "UPDATE the present row, or insert another key.",
    ),
    "SQ2421": _code(
        "A NOT NULL column would become NULL.",
        "Write a value for it, or declare a DEFAULT in CREATE TABLE.",
    ),
    "SQ2422": _code(
        "A value is too large or too long for the type of its column.",
        "Use a smaller value, or create the table with a larger type.",
    ),
    "SQ2423": _code(
        "A row of INSERT has more or fewer values than the table or the column list has columns.",
        "Write one value for each column.",
    ),
    "SQ2425": _code(
        "A column of this type cannot store the value without a cast.",
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
        "A table's key has a column of type jsonb, whose values cannot be compared exactly.",
        "Store the values that identify a row in separate columns.",
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
        "The present rows have NULL in a new column, so it can have neither a constraint nor a DEFAULT.",
        "Add the column without it, and UPDATE the rows. Or create another table.",
    ),
    "SQ2434": _code(
        "A notice: INSERT, UPDATE and DELETE have no effect if you only compile or explain a script.",
        "To change the rows, run the script with sinkql exec.",
    ),
    "SQ2450": _code(
        "No installed connector reads from a system of this kind.",
        "Use one of the kinds that the hint lists, or install the connector's package.",
    ),
    "SQ2460": _code(
        (
            "The source produces rows directly and has no tables, so it has no subsources, and CREATE TABLE "
            "cannot read from it."
        ),
        "Read the source directly, and leave out FOR ALL TABLES or FOR TABLES.",
    ),
    "SQ2461": _code(
        "The source has no table of this name.",
        "Name one of the tables that the hint lists.",
    ),
    "SQ2462": _code(
        "The source has several tables and no rows under the source's name.",
        "Read one of its subsources, or create a table with CREATE TABLE name FROM SOURCE source (REFERENCE …).",
    ),
    "SQ2463": _code(
        "CREATE TABLE … FROM SOURCE has no name of a table in the source.",
        "Add (REFERENCE name) with one of the source's tables.",
    ),
    "SQ2465": _code(
        "Two subsources would have the same name, or one would have the name of the source.",
        "Rename one of them: FOR TABLES (name AS another_name).",
    ),
    "SQ2464": _code(
        "The source decides this clause of its tables, for example their columns.",
        "Leave out the clause.",
    ),
    "SQ2470": _code(
        "A message format does not fit the declared columns.",
        "Declare the columns that the format produces, or choose another format, as the hint shows.",
    ),
    "SQ2471": _code(
        "Each message is one record, so no record holds the names of the fields.",
        "Leave out HEADER, and declare the columns in the order of the fields.",
    ),
    "SQ2466": _code(
        "The source has no tables in a schema that FOR SCHEMAS names.",
        "Name a schema that the hint lists, or write FOR ALL TABLES.",
    ),
    "SQ2468": _code(
        "ALTER SOURCE … DROP TABLE names something that is no table of the source.",
        "Name a table that SHOW SUBSOURCES lists for the source.",
    ),
    "SQ2469": _code(
        (
            "The progress relation of a source shows its current offsets. Queries can read it, but views and "
            "sinks cannot."
        ),
        "Query it, or query `mz_internal.mz_source_progress`.",
    ),
    "SQ2478": _code(
        (
            "A notice: SinkQL does not read a table that was added to the server later. It cannot read the table, "
            "or the name is already used in the catalog."
        ),
        "Run the statement that the hint shows.",
    ),
    "SQ2467": _code(
        "Several schemas have a table of this name.",
        "Write the name of the schema before it.",
    ),
    "SQ2472": _code(
        "A Kafka source names no connection to the brokers.",
        "Write FROM KAFKA CONNECTION name (TOPIC '…').",
    ),
    "SQ2473": _code(
        "A Kafka source has START OFFSET and START TIMESTAMP, but it can begin at one position only.",
        "Keep one of them.",
    ),
    "SQ2474": _code(
        "INCLUDE KEY is not needed here, or the key columns already have names.",
        "Leave out INCLUDE KEY.",
    ),
    "SQ2475": _code(
        "A Kafka source reads the keys of messages, but has no format for them.",
        "Write KEY FORMAT … VALUE FORMAT ….",
    ),
    "SQ2476": _code(
        "ENVELOPE DEBEZIUM needs messages in JSON or Avro.",
        "Set Debezium's converter to one of them (`value.converter`), or leave out ENVELOPE DEBEZIUM.",
    ),
    "SQ2477": _code(
        "The messages' key has a column that their rows do not have.",
        "Declare the key columns: PRIMARY KEY (…) NOT ENFORCED.",
    ),
    "SQ2480": _code(
        "Avro and Protobuf messages do not describe their contents, so the source needs a schema.",
        "Add USING CONFLUENT SCHEMA REGISTRY CONNECTION name, or the schema text.",
    ),
    "SQ2481": _code(
        "The source's columns are in a schema registry, and compiling a script does not contact the registry.",
        "Create the source with sinkql exec, or write the schema in the statement.",
    ),
    "SQ2482": _code(
        "A schema registry lacks a schema: for the topic's keys or values, or with this id.",
        "Register a schema, correct the name of the topic, or name a schema by its id.",
    ),
    "SQ2483": _code(
        "The schema of the topic's messages has another format than the source.",
        "Write the format that the hint names.",
    ),
    "SQ2484": _code(
        "The option controls the schemas that a sink creates, but a source creates none.",
        "Leave out the option.",
    ),
    "SQ2485": _code(
        "A schema is not valid in its format, or contains something that a table cannot have.",
        "Correct the schema, or name another one.",
    ),
    "SQ2501": _code(
        "The connection is for another kind of system than the statement needs.",
        "Name a connection of the kind in the message.",
    ),
    "SQ2502": _code(
        "No installed connector connects to a system of this kind.",
        "Use one of the kinds that the hint lists, or install the connector's package.",
    ),
    "SQ2510": _code(
        "An AWS connection has neither a role nor access keys.",
        "Write ASSUME ROLE ARN, or ACCESS KEY ID and SECRET ACCESS KEY.",
    ),
    "SQ2511": _code(
        "An AWS connection has a role and access keys. SinkQL assumes a role with this machine's AWS credentials.",
        "Leave out one of them.",
    ),
    "SQ2512": _code(
        "An AWS connection has only one of ACCESS KEY ID and SECRET ACCESS KEY.",
        "Write both.",
    ),
    "SQ2513": _code(
        "An AWS connection has a session name or an external id, but no role to use it for.",
        "Add ASSUME ROLE ARN, or leave out the option.",
    ),
    "SQ2514": _code(
        "ASSUME ROLE ARN is not the ARN of a role.",
        "Copy it from AWS: it has the form arn:aws:iam::123456789012:role/name.",
    ),
    "SQ2515": _code(
        (
            "AWS does not allow this session name or external id. It is too short, too long, or has other "
            "characters than AWS accepts."
        ),
        "Write it as the hint shows.",
    ),
    "SQ2516": _code(
        "ENDPOINT of an AWS connection is not an http or https URL.",
        "Write it as in https://host:port.",
    ),
    "SQ2519": _code(
        "An Iceberg catalog connection has no catalog type.",
        "Add CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'.",
    ),
    "SQ2520": _code(
        "The catalog type does not exist.",
        "Use one of the types that the hint lists.",
    ),
    "SQ2527": _code(
        "URL is not an absolute URL with a host, or its scheme does not fit the catalog type.",
        "Write the URL as the hint shows.",
    ),
    "SQ2528": _code(
        "Other catalog types have this option, but this one does not.",
        "Leave it out, or use the options that the hint lists.",
    ),
    "SQ2530": _code(
        "A notice: the connection has no credentials.",
        "Add CREDENTIAL = SECRET name, unless the catalog needs no credentials.",
    ),
    "SQ2531": _code(
        (
            "WAREHOUSE does not fit the catalog type. Type sql needs a local folder, glue a location in S3, and "
            "s3tablesrest a table bucket."
        ),
        "Write it as the hint shows. For tables in S3, use another type than sql.",
    ),
    "SQ2532": _code(
        "CREDENTIAL does not apply to an SQLite database, which has no users.",
        "Leave out CREDENTIAL.",
    ),
    "SQ2533": _code(
        (
            "A REST catalog connection has GCP CONNECTION and an option of OAuth2, for example CREDENTIAL. A "
            "request can carry only one token."
        ),
        "Leave out one of them. GCP CONNECTION is for BigLake, CREDENTIAL for other catalogs.",
    ),
    "SQ2534": _code(
        (
            "GCP CONNECTION works only with the URL of BigLake's catalog. Another server would receive a Google "
            "token. A local server is allowed for tests."
        ),
        "Write the URL that the hint shows, or use CREDENTIAL.",
    ),
    "SQ2535": _code(
        (
            "The files of a catalog with GCP CONNECTION are in Google Cloud Storage, which an AWS connection "
            "cannot reach."
        ),
        (
            "Leave out USING AWS CONNECTION. SinkQL reaches the files with the service account of the catalog's "
            "connection."
        ),
    ),
    "SQ2540": _code(
        "A change of the option would point existing sinks at another target.",
        "Create another connection, and create the sinks again with it.",
    ),
    "SQ2560": _code(
        "A Kafka connection names no broker, or has both BROKER and BROKERS.",
        "Write BROKER 'host:9092', or BROKERS ('a:9092', 'b:9092').",
    ),
    "SQ2561": _code(
        "A broker address must be a host and a port.",
        "Write it as in 'host:9092'.",
    ),
    "SQ2562": _code(
        "The SASL options of a Kafka connection do not fit its SECURITY PROTOCOL, or some are missing.",
        "Write SASL MECHANISMS, SASL USERNAME and SASL PASSWORD. With SSL and PLAINTEXT, write none of them.",
    ),
    "SQ2563": _code(
        (
            "A certificate of a Kafka connection does not fit its SECURITY PROTOCOL, or the certificate or the "
            "key is missing."
        ),
        "Write SSL CERTIFICATE and SSL KEY together. Without TLS, write neither.",
    ),
    "SQ2542": _code(
        "An option of a schema registry connection needs another option, which is missing.",
        "Add the option that the hint names.",
    ),
    "SQ2818": _code(
        "LOG of a captured source names no bucket, or LOG and AWS CONNECTION are not both present.",
        (
            "Write WITH (LOG = 's3://bucket/prefix', AWS CONNECTION = name), or leave out both. Without them, the "
            "log is in the catalog's folder."
        ),
    ),
}
