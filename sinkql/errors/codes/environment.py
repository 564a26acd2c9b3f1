"""Error codes of failures of the environment and of remote services.

Error codes of AWS and Google Cloud connections.

Error codes of Spark clusters elsewhere: their masters, executors, and the archive that these are given.
"""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)


CODES = {
    "SQ4001": _code(
        (
            "A batch needs Spark, and Spark needs Java. No Java is installed, or the Java in JAVA_HOME does not start. "
            "Nothing is lost: the sink waits, and other sinks continue."
        ),
        "Run pip install 'sinkql[java]', which includes Java, or install a Java 17 runtime.",
        retryable=True,
    ),
    "SQ4002": _code(
        "The installed Java is too old for Spark.",
        "Run pip install 'sinkql[java]', which includes Java, or set JAVA_HOME to a Java 17 runtime.",
        retryable=True,
    ),
    "SQ4003": _code(
        "Spark did not start. Common reasons are a wrong CONF of the cluster and too little memory.",
        "Read the detail and the log that the hint names, and check the options of the cluster.",
    ),
    "SQ4004": _code(
        (
            "A process that runs sinks, or one of its child processes, ended unexpectedly, for example because "
            "memory ran out."
        ),
        "If the sinks do not restart, start them again. They continue from their last commits.",
    ),
    "SQ4005": _code(
        "A Spark process did not answer in time, usually because the machine is overloaded.",
        (
            "Usually, you need not do anything: the sink retries with growing pauses. If the error stays, run "
            "less on the machine."
        ),
        retryable=True,
    ),
    "SQ4006": _code(
        (
            "The system's user list has no entry for the user id of this process, as can happen in a container. "
            "On a remote cluster, Spark does not start without a user name."
        ),
        "Add a line for the user id to /etc/passwd, or run SinkQL as a user with a name.",
    ),
    "SQ4070": _code(
        "SinkQL found no writable folder for temporary files, as in a container with a read-only root.",
        "Set TMPDIR to a writable folder, or mount one at /tmp.",
    ),
    "SQ4010": _code(
        "The file of a script does not exist or cannot be read.",
        "Correct the path or the permissions of the file.",
    ),
    "SQ4011": _code(
        "The file is no program from sinkql compile, or another version of SinkQL wrote it.",
        "Compile the SQL again.",
    ),
    "SQ4012": _code(
        "A compiled program contains no earlier stages of its plan.",
        "Run EXPLAIN on the SQL.",
    ),
    "SQ4017": _code(
        "The folder has no files with the ending .sql.",
        "Name a folder of SQL files, or the files.",
    ),
    "SQ4018": _code(
        "The plan would contain the value of a secret.",
        "Read the value from a reference, as in CREATE SECRET … AS env_var('NAME').",
    ),
    "SQ4019": _code(
        "The file was not written by sinkql plan --out, or another version of SinkQL wrote it.",
        "Create the plan again.",
    ),
    "SQ4030": _code(
        "The shell has no backslash command of this name.",
        "Run \\? to list the commands.",
    ),
    "SQ4031": _code(
        "A backslash command has the wrong arguments, or does not work here.",
        "Run \\? to see the form of the command.",
    ),
    "SQ4032": _code(
        "The shell cannot write the output file.",
        "Correct the path or the permissions of the folder.",
    ),
    "SQ4033": _code(
        "The script uses a variable that has no value.",
        "Set it with -v name=value, or with \\set in the shell.",
    ),
    "SQ4034": _code(
        "A notice of the shell: the sink exists, but no process runs it.",
        "Run sinkql up, or \\start in the shell.",
    ),
    "SQ4035": _code(
        "The program in EDITOR does not start.",
        "Set EDITOR to a program that exists.",
    ),
    "SQ4036": _code(
        "The catalog has no sinks.",
        "Create one with CREATE SINK.",
    ),
    "SQ4037": _code(
        "The documentation has nothing about the words after \\h.",
        "Run \\h to list the statements.",
    ),
    "SQ4038": _code(
        "A statement in the shell failed with an unexpected error. A part of it may have been done.",
        "Check the result with \\d, and report the error.",
    ),
    "SQ4039": _code(
        "SinkQL does not support this form of a server address.",
        "Write it as postgres://user@host:5432/database, mysql://user@host:3306 or kafka://host:9092.",
    ),
    "SQ4040": _code(
        "The server has no table or topic of this name that the user may read.",
        "Correct the name, or grant the user the missing rights. `sinkql doctor` shows them.",
    ),
    "SQ4041": _code(
        "The output file already exists.",
        "Name another file with -o, or delete it.",
    ),
    "SQ4101": _code(
        "The file is a database of another program.",
        "Name another file with --catalog or SINKQL_CATALOG.",
    ),
    "SQ4102": _code(
        "Another version of SinkQL wrote the catalog.",
        "Use that version.",
    ),
    "SQ4103": _code(
        "The catalog file is damaged, or another program changed the tables of a catalog in Postgres.",
        "Restore a backup of the file or the database.",
    ),
    "SQ4104": _code(
        "Another process has locked the catalog for longer than SinkQL waits.",
        (
            "Try again. If the error stays, find the program that keeps the file open. In Postgres, find the "
            "session that stays in a transaction."
        ),
        retryable=True,
    ),
    "SQ4105": _code(
        "SinkQL cannot create or write the catalog file.",
        (
            "Check that the folder exists and belongs to you, and that the disk is not full. Or name another "
            "catalog with --catalog or SINKQL_CATALOG."
        ),
        retryable=True,
    ),
    "SQ4106": _code(
        "The text of an item in the catalog file is no CREATE statement of this version.",
        "Restore a backup of the file.",
    ),
    "SQ4113": _code(
        "The catalog's URL is not valid, or names another database than SQLite or Postgres.",
        "Name a file, or write sqlite:///path/to/catalog.db or postgresql+psycopg://user@host/database.",
    ),
    "SQ4114": _code(
        "Other users may read or write the catalog file or its .sinkql folder, or another user owns the folder.",
        (
            "Run chmod 600 on the file and chmod 700 on the folder. Run sinkql as the user who owns them, or name "
            "another catalog with --catalog or SINKQL_CATALOG."
        ),
    ),
    "SQ4115": _code(
        "The catalog does not exist.",
        "Name it with --catalog or SINKQL_CATALOG, or run sinkql exec FILE to create one.",
    ),
    "SQ4116": _code(
        "Parts of the catalog file contradict each other, because another program changed it.",
        "Restore a backup of the file.",
    ),
    "SQ4117": _code(
        "The file for the backup already exists.",
        "Name another file.",
    ),
    "SQ4150": _code(
        (
            "The catalog's Postgres server does not answer, or the connection to it was lost. A change that "
            "SinkQL was storing may be stored or not."
        ),
        "Check that the server runs and accepts connections from this host.",
        retryable=True,
    ),
    "SQ4151": _code(
        "The catalog's Postgres server refuses the login.",
        "Correct the user and password in the URL, in PGPASSWORD or in ~/.pgpass, or the server's pg_hba.conf.",
    ),
    "SQ4152": _code(
        "The catalog's Postgres server has no database of this name.",
        "Correct the name in the URL, or run CREATE DATABASE on the server.",
    ),
    "SQ4153": _code(
        "The user in the catalog's URL may not create or use the schema of the catalog.",
        "As the owner of the database, run CREATE SCHEMA sinkql AUTHORIZATION with the user.",
    ),
    "SQ4154": _code(
        "The Postgres schema for the catalog contains tables of another program.",
        "Name another schema in the URL, as in postgresql+psycopg://user@host/database?schema=pipelines.",
    ),
    "SQ4155": _code(
        "A catalog in Postgres needs the package psycopg, which is not installed or does not load.",
        "Install it as the hint shows.",
    ),
    "SQ4156": _code(
        "PgBouncer in front of the catalog's Postgres server uses statement pooling, which allows no transactions.",
        "Set pool_mode = transaction or session for the database in pgbouncer.ini, or connect to the server directly.",
    ),
    "SQ4157": _code(
        (
            "A path begins with ~, but the user has no home folder. HOME is not set, and the system has no entry "
            "for the user, as can happen in a container."
        ),
        "Write the whole path, or set HOME.",
    ),
    "SQ4201": _code(
        "The Iceberg catalog cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the catalog runs.",
        retryable=True,
    ),
    "SQ4202": _code(
        "The Iceberg catalog rejects the connection's credential.",
        "Check CREDENTIAL, SCOPE and OAUTH2 SERVER URL, or GCP CONNECTION, in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4203": _code(
        "The Iceberg catalog accepts the credential, but does not allow the operation.",
        "Grant the principal the right to create and write tables.",
        retryable=True,
    ),
    "SQ4204": _code(
        "The Iceberg catalog rejects a request. Often, the warehouse does not exist, or the user may not see it.",
        (
            "Check WAREHOUSE and URL in CREATE CONNECTION. Check that the connection's credential, keys or role "
            "may use the warehouse."
        ),
    ),
    "SQ4206": _code(
        "URL of the connection cannot be the address of an Iceberg catalog.",
        "Correct URL in CREATE CONNECTION.",
    ),
    "SQ4207": _code(
        "The database of a catalog of type sql fails or cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the database runs.",
        retryable=True,
    ),
    "SQ4208": _code(
        "The Iceberg catalog returned an error.",
        "Read the detail and the log of the catalog.",
        retryable=True,
    ),
    "SQ4209": _code(
        (
            "This machine does not trust the certificate authority of the Iceberg catalog, or the server at URL "
            "does not use TLS."
        ),
        "Set REQUESTS_CA_BUNDLE to the certificate of the authority, or correct URL in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4210": _code(
        (
            "The connection has ACCESS DELEGATION = 'vended-credentials', but the Iceberg catalog sends no keys "
            "for the table's files."
        ),
        (
            "Configure the catalog to send keys, or leave out ACCESS DELEGATION. Without GCP CONNECTION, also add "
            "USING AWS CONNECTION to the sink."
        ),
        retryable=True,
    ),
    "SQ4211": _code(
        "The Iceberg catalog rejects the keys that sign its requests.",
        "Check the keys, the role and the region of the AWS connection.",
        retryable=True,
    ),
    "SQ4212": _code(
        "The server at OAUTH2 SERVER URL does not answer, or its answer has no token.",
        "Check OAUTH2 SERVER URL in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4213": _code(
        (
            "The Hive metastore is older than Hive 4. It does not check for concurrent changes, so one commit "
            "could silently undo another."
        ),
        "Use a metastore of Hive 4 or later, or another type of catalog.",
    ),
    "SQ4214": _code(
        "Catalogs of type hive need the Python package thrift.",
        "Run pip install 'sinkql[hive]'.",
    ),
    "SQ4301": _code(
        "The user that runs SinkQL cannot write to the warehouse folder.",
        "Grant the user the right to write there.",
        retryable=True,
    ),
    "SQ4302": _code(
        "The object store rejects the credentials, or they do not allow reading and writing the bucket.",
        (
            "Correct the keys of the sink's AWS connection with ALTER SECRET or ALTER CONNECTION. Or allow its "
            "keys or role to read and write the bucket. A sink without USING AWS CONNECTION uses the keys of its "
            "catalog, or of this machine."
        ),
        retryable=True,
    ),
    "SQ4303": _code(
        "The bucket is in another region than the connection.",
        "Set REGION, or ENDPOINT, in CREATE CONNECTION … TO AWS.",
    ),
    "SQ4304": _code(
        "The object store or the file system fails, for example because it is unreachable or full.",
        "Read the detail.",
        retryable=True,
    ),
    "SQ4305": _code(
        "The path of the warehouse contains # or ?, which Iceberg interprets as parts of a URL.",
        "Use another folder as WAREHOUSE.",
    ),
    "SQ4306": _code(
        (
            "A disk that a sink or a table writes to is full, or the user's quota is used up. The disk holds "
            ".sinkql or the warehouse."
        ),
        "Free space on the disk. Nothing is lost: commits stay, and a running sink continues.",
        retryable=True,
    ),
    "SQ4307": _code(
        (
            "A file in a sink's state folder or warehouse cannot be read or written. The disk is mounted "
            "read-only, or the user lacks permission."
        ),
        "Mount the disk for writing, or grant the user the right. Nothing is lost: a running sink continues.",
        retryable=True,
    ),
    "SQ4308": _code(
        "The keys to the object store have expired.",
        (
            "Replace an expired SESSION TOKEN. For keys of a role or of the catalog, you need not do anything: "
            "the sink gets new ones."
        ),
        retryable=True,
    ),
    "SQ4309": _code(
        (
            "A notice: a source or sink was dropped, but SinkQL could not delete its replication slot, log in S3, "
            "state or tag. The server does not answer, or the connection's user lacks the right."
        ),
        (
            "Delete it there. Until then, a replication slot retains the server's log, and a tag retains a "
            "snapshot with its files."
        ),
    ),
    "SQ4220": _code(
        "AWS rejects the keys of an AWS connection, or the keys of this machine that assume its role.",
        "Check ACCESS KEY ID and SECRET ACCESS KEY. With a role, check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        retryable=True,
    ),
    "SQ4221": _code(
        "The session token of an AWS connection has expired, or belongs to other keys.",
        "Set the secrets to the keys and the token of a new session, or use ASSUME ROLE ARN.",
        retryable=True,
    ),
    "SQ4222": _code(
        (
            "AWS does not let this machine's credentials assume the role of an AWS connection, or the role does "
            "not exist."
        ),
        "Check ASSUME ROLE ARN. In the role's trust policy, allow it with the same external id.",
        retryable=True,
    ),
    "SQ4223": _code(
        "AWS, or the server at ENDPOINT, does not answer, or its answer is not one of AWS.",
        "Check ENDPOINT, REGION and the network.",
        retryable=True,
    ),
    "SQ4224": _code(
        "An AWS connection has a role, but this machine has no AWS credentials to assume it.",
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, before you start SinkQL.",
    ),
    "SQ4225": _code(
        "REGION of an AWS connection is not the name of a region.",
        "Write the region of the bucket, for example us-east-1.",
    ),
    "SQ4226": _code(
        "AWS returned an error.",
        "Look up the code in the detail.",
        retryable=True,
    ),
    "SQ4227": _code(
        "This machine does not trust the certificate of the server at ENDPOINT, or that server does not use TLS.",
        (
            "Set AWS_CA_BUNDLE for connections and sources, and SSL_CERT_FILE for sinks, to the authority's "
            "certificate. Or correct ENDPOINT."
        ),
        retryable=True,
    ),
    "SQ4228": _code(
        "Roles, VALIDATE CONNECTION of AWS connections, files in S3, and catalogs of AWS need the package boto3.",
        "Run pip install 'sinkql[aws]'.",
    ),
    "SQ4230": _code(
        "The secret of SERVICE ACCOUNT KEY is not the key of a Google Cloud service account.",
        "Store Google's whole JSON file in the secret: ALTER SECRET name AS file('key.json').",
        retryable=True,
    ),
    "SQ4231": _code(
        (
            "Google rejects the key of a service account. The account or its key was deleted or disabled, or this "
            "machine's clock is wrong."
        ),
        "Create a new key, and store it in the secret with ALTER SECRET.",
        retryable=True,
    ),
    "SQ4232": _code(
        "Google's token server cannot be reached, or its answer has no token.",
        "Check the network, and token_uri in the key.",
        retryable=True,
    ),
    "SQ4233": _code(
        "GCP connections need the package google-auth.",
        "Run pip install 'sinkql[gcp]'.",
    ),
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
