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
        "Spark needs Java, and no Java is installed, or the one in JAVA_HOME does not start.",
        "Run pip install 'sinkql[java]', which brings one along, or install a Java 17 runtime.",
    ),
    "SQ4002": _code(
        "The Java that was found is too old for Spark.",
        "Run pip install 'sinkql[java]', which brings one along, or set JAVA_HOME to a Java 17 runtime.",
    ),
    "SQ4003": _code(
        "Spark did not start, often because the CONF of the cluster is wrong or memory is short.",
        "Read the detail and the log that the hint names, and check the options of the cluster.",
    ),
    "SQ4004": _code(
        "A process that runs sinks, or one that it started, ended unexpectedly, for instance because memory ran out.",
        "Start the sinks again if they do not continue by themselves; they go on where they stopped.",
    ),
    "SQ4005": _code(
        "A process of Spark did not answer in time, mostly because the machine has too much to do.",
        "Usually nothing: a sink tries again, with growing pauses. If the error stays, run less on the machine.",
        retryable=True,
    ),
    "SQ4006": _code(
        "The user id that SinkQL runs as has no entry in the system's list of users, as it may be in a container. "
        "Where Spark goes to a cluster elsewhere, it does not start without a user's name.",
        "Add a line for the user id to /etc/passwd, or run SinkQL as a user that has a name.",
    ),
    "SQ4070": _code(
        "No folder for temporary files can be written, as in a container with a read-only root.",
        "Set TMPDIR to a folder that can be written, or mount one at /tmp.",
    ),
    "SQ4010": _code(
        "The file of a script does not exist or cannot be read.",
        "Correct the path or the permissions of the file.",
    ),
    "SQ4011": _code(
        "The file is not a program made by sinkql compile, or was made by another version.",
        "Compile the SQL again.",
    ),
    "SQ4012": _code(
        "A compiled program only keeps what it needs to run, not the earlier stages of its plan.",
        "Run EXPLAIN on the SQL.",
    ),
    "SQ4017": _code(
        "The folder has no files that end in .sql.",
        "Name a folder of SQL files, or the files themselves.",
    ),
    "SQ4018": _code(
        "The plan would be saved with the value of a secret in it.",
        "Take the value from a reference, as in CREATE SECRET … AS env_var('NAME').",
    ),
    "SQ4019": _code(
        "The file was not written by sinkql plan --out, or by another version of SinkQL.",
        "Make the plan again.",
    ),
    "SQ4030": _code(
        "The shell has no such backslash command.",
        "Run \\? to list the commands.",
    ),
    "SQ4031": _code(
        "A backslash command has the wrong arguments, or cannot be used at this place.",
        "Run \\? to see how the command is written.",
    ),
    "SQ4032": _code(
        "The shell cannot write the file for output.",
        "Correct the path or the permissions of the folder.",
    ),
    "SQ4033": _code(
        "The script uses a variable that has no value.",
        "Give it one with -v name=value, or with \\set in the shell.",
    ),
    "SQ4034": _code(
        "A notice of the shell: the sink was created, but nothing runs it.",
        "Run sinkql up, or \\start in the shell.",
    ),
    "SQ4035": _code(
        "The program in EDITOR cannot be started.",
        "Set EDITOR to a program that exists.",
    ),
    "SQ4036": _code(
        "The catalog has no sinks.",
        "Create one with CREATE SINK.",
    ),
    "SQ4037": _code(
        "\\h was asked about a statement that does not exist.",
        "Run \\h to list the statements.",
    ),
    "SQ4038": _code(
        "A statement in the shell failed for a reason that SinkQL has no code for. It may have been done in part.",
        "Check with \\d what was done, and report the error.",
    ),
    "SQ4039": _code(
        "The address of a server is not one that SinkQL knows what to do with.",
        "Write it as postgres://user@host:5432/database, mysql://user@host:3306 or kafka://host:9092.",
    ),
    "SQ4040": _code(
        "The server has no table or topic of the name, or none at all that the user may read.",
        "Correct the name, or grant the user what it needs: sinkql doctor tells.",
    ),
    "SQ4041": _code(
        "The file that is to be written is there already.",
        "Name another file with -o, or delete it.",
    ),
    "SQ4101": _code(
        "The file is a database of another program.",
        "Name another file with --catalog or SINKQL_CATALOG.",
    ),
    "SQ4102": _code(
        "The catalog was written by another version of SinkQL.",
        "Use the version that wrote it.",
    ),
    "SQ4103": _code(
        "The catalog file is damaged, or tables of a catalog in Postgres were changed by another program.",
        "Restore a backup of the file or the database.",
    ),
    "SQ4104": _code(
        "Another process has locked the catalog for longer than SinkQL waits.",
        "Try again. If the error stays, find the program that keeps the file open; in Postgres, a session that stays "
        "in a transaction.",
        retryable=True,
    ),
    "SQ4105": _code(
        "The catalog file cannot be created or written.",
        "Check that the folder exists and belongs to you, and that the disk is not full, or name another catalog with "
        "--catalog or SINKQL_CATALOG. A running sink goes on by itself.",
        retryable=True,
    ),
    "SQ4106": _code(
        "The text of an item in the catalog file is not a CREATE statement of this version.",
        "Restore a backup of the file.",
    ),
    "SQ4113": _code(
        "The catalog is given as a URL that is not valid, or of a database other than SQLite and Postgres.",
        "Name a file, or write sqlite:///path/to/catalog.db or postgresql+psycopg://user@host/database.",
    ),
    "SQ4114": _code(
        "Other users may read or write the catalog file or its .sinkql folder, or another user owns the folder.",
        "Run chmod 600 on the file and chmod 700 on the folder; run sinkql as the user who owns them, or name another "
        "catalog with --catalog or SINKQL_CATALOG.",
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
        "The file that a backup should be written to exists already.",
        "Name another file.",
    ),
    "SQ4150": _code(
        "The Postgres server of the catalog does not answer, or the connection to it was lost. A change that was being "
        "stored may be stored or not.",
        "Check that the server runs and takes connections from this host. A running sink goes on by itself.",
        retryable=True,
    ),
    "SQ4151": _code(
        "The Postgres server of the catalog does not let the user log in.",
        "Correct user and password, in the URL, in PGPASSWORD or in ~/.pgpass, or the server's pg_hba.conf.",
    ),
    "SQ4152": _code(
        "The Postgres server of the catalog has no database of this name.",
        "Correct the name in the URL, or run CREATE DATABASE on the server.",
    ),
    "SQ4153": _code(
        "The user of the catalog's URL may not create the schema of the catalog, or not use it.",
        "Let the owner of the database run CREATE SCHEMA sinkql AUTHORIZATION with the user.",
    ),
    "SQ4154": _code(
        "The schema of the Postgres database that the catalog would be in has tables of another program.",
        "Name another schema in the URL, as in postgresql+psycopg://user@host/database?schema=pipelines.",
    ),
    "SQ4155": _code(
        "A catalog in Postgres needs the package psycopg, which is not installed or does not load.",
        "Install it as the hint shows.",
    ),
    "SQ4156": _code(
        "PgBouncer in front of the Postgres server of the catalog gives out a connection for one statement, and so "
        "allows no transactions.",
        "Set pool_mode = transaction, or session, for the database in pgbouncer.ini, or name the server itself.",
    ),
    "SQ4157": _code(
        "A path begins with ~, which stands for the home of a user who has none: HOME is not set, and the system has "
        "no entry for the user, as it may be in a container.",
        "Write the whole path, or set HOME.",
    ),
    "SQ4201": _code(
        "The Iceberg catalog cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the catalog runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4202": _code(
        "The Iceberg catalog rejects the credential of the connection.",
        "Check CREDENTIAL, SCOPE and OAUTH2 SERVER URL, or GCP CONNECTION, in CREATE CONNECTION. A running sink tries "
        "again by itself.",
        retryable=True,
    ),
    "SQ4203": _code(
        "The Iceberg catalog accepts the credential, but does not allow the operation.",
        "Grant the principal the right to create and write tables. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4204": _code(
        "The Iceberg catalog rejects a request, often because the warehouse does not exist, or is hidden from whoever "
        "may not use it.",
        "Check WAREHOUSE and URL in CREATE CONNECTION, and that the credential, the keys or the role of the connection "
        "may use the warehouse.",
    ),
    "SQ4206": _code(
        "URL of the connection cannot be the address of an Iceberg catalog.",
        "Correct URL in CREATE CONNECTION.",
    ),
    "SQ4207": _code(
        "The database that holds a catalog of type sql fails or cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the database runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4208": _code(
        "The Iceberg catalog answers with an error of its own.",
        "Look at the detail and the log of the catalog. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4209": _code(
        "The certificate of the Iceberg catalog is not signed by an authority that this machine trusts, or the server "
        "at URL does not use TLS.",
        "Set REQUESTS_CA_BUNDLE to the certificate of the authority, or correct URL in CREATE CONNECTION. A running "
        "sink tries again by itself.",
        retryable=True,
    ),
    "SQ4210": _code(
        "The connection has ACCESS DELEGATION = 'vended-credentials', but the Iceberg catalog does not give keys for "
        "the files of the table.",
        "Set up the catalog so that it gives keys, or leave out ACCESS DELEGATION; without GCP CONNECTION also add "
        "USING AWS CONNECTION to the sink. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4211": _code(
        "The Iceberg catalog rejects the keys that its requests are signed with.",
        "Check the keys, the role and the region of the AWS connection. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4212": _code(
        "The server at OAUTH2 SERVER URL does not answer, or answers without a token.",
        "Check OAUTH2 SERVER URL in CREATE CONNECTION. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4213": _code(
        "The Hive metastore is older than Hive 4. It does not compare what it alters with what was read, so that a "
        "commit could undo another one without anybody noticing.",
        "Use a metastore of Hive 4 or later, or another type of catalog.",
    ),
    "SQ4214": _code(
        "Catalogs of type hive need the Python package thrift, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[hive]'.",
    ),
    "SQ4301": _code(
        "The warehouse folder cannot be written by this user.",
        "Give the user the right to write there. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4302": _code(
        "The object store rejects the credentials, or they do not allow reading and writing the bucket.",
        "Correct the keys of the AWS connection that the sink uses, with ALTER SECRET or ALTER CONNECTION, or allow "
        "its keys or its role to read and write the bucket. A sink without USING AWS CONNECTION uses those of its "
        "catalog, or of this machine. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4303": _code(
        "The bucket is in another region than the connection says.",
        "Set REGION, or ENDPOINT, in CREATE CONNECTION … TO AWS.",
    ),
    "SQ4304": _code(
        "The object store or the file system fails, for instance because it cannot be reached or is full.",
        "Look at the detail. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4305": _code(
        "The path of the warehouse contains # or ?, which Iceberg takes for parts of a URL.",
        "Use another folder as WAREHOUSE.",
    ),
    "SQ4306": _code(
        "A disk that a sink or a table writes to, its folder in .sinkql or its warehouse, is full, or the user's quota "
        "is.",
        "Make room on the disk. Nothing is lost: what is committed stays, and a running sink goes on by itself.",
        retryable=True,
    ),
    "SQ4307": _code(
        "A file in a sink's state folder or warehouse cannot be read or written: the disk is mounted read-only, or the "
        "user does not have permission.",
        "Mount the disk for writing, or give the user the right. Nothing is lost: a running sink goes on by itself.",
        retryable=True,
    ),
    "SQ4308": _code(
        "The keys to the object store have expired.",
        "Nothing, where they are of a role or of the catalog: a running sink tries again with new ones. A "
        "SESSION TOKEN has to be replaced.",
        retryable=True,
    ),
    "SQ4309": _code(
        (
            "A source was dropped, and what its server keeps for it, such as a replication slot, or its log in S3, "
            "could not be deleted; or a sink, and its state where STATE of its cluster says, or the tag that its table "
            "has of it: the server does not answer, or does not let the user of the connection do that."
        ),
        "Delete it there; until then a replication slot holds the server's log, and a tag a snapshot with its files.",
    ),
    "SQ4220": _code(
        "AWS rejects the keys of an AWS connection, or those of this machine that were to assume its role.",
        "Check ACCESS KEY ID and SECRET ACCESS KEY; with a role AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        retryable=True,
    ),
    "SQ4221": _code(
        "The session token of an AWS connection has expired, or is not the one of its keys.",
        "Give the secrets the keys and the token of a new session, or use ASSUME ROLE ARN.",
        retryable=True,
    ),
    "SQ4222": _code(
        "AWS does not let this machine's credentials assume the role of an AWS connection, or there is no such role.",
        "Check ASSUME ROLE ARN, and allow it in the role's trust policy, with the same external id. A running sink "
        "tries again by itself.",
        retryable=True,
    ),
    "SQ4223": _code(
        "AWS, or the server at ENDPOINT of an AWS connection, does not answer, or not as AWS does.",
        "Check ENDPOINT, REGION and the network. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4224": _code(
        "An AWS connection has a role, and this machine has no AWS credentials to assume it with.",
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, before the job starts.",
    ),
    "SQ4225": _code(
        "REGION of an AWS connection is not the name of a region.",
        "Write the region of the bucket, such as us-east-1.",
    ),
    "SQ4226": _code(
        "AWS answers with an error of its own.",
        "Look up the code in the detail. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4227": _code(
        "The certificate of the server at ENDPOINT of an AWS connection is not trusted, or the server does "
        "not use TLS.",
        "Set AWS_CA_BUNDLE, which connections and sources read, and SSL_CERT_FILE, which sinks read, to the "
        "certificate of its authority, or correct ENDPOINT. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4228": _code(
        "Roles, VALIDATE CONNECTION of AWS connections, files in S3, and catalogs of AWS need boto3, which is not "
        "installed.",
        "Run pip install 'sinkql[aws]'.",
    ),
    "SQ4230": _code(
        "The secret of SERVICE ACCOUNT KEY is not the key of a service account of Google Cloud.",
        "Give the secret the whole file of JSON that Google gave out: ALTER SECRET name AS file('key.json'). A running "
        "sink tries again by itself.",
        retryable=True,
    ),
    "SQ4231": _code(
        "Google rejects the key of a service account: the account or its key was deleted or disabled, or the clock of "
        "this machine is wrong.",
        "Make a new key, and give it to the secret with ALTER SECRET. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4232": _code(
        "The server of Google's tokens cannot be reached, or answers without a token.",
        "Check the network, and token_uri in the key. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4233": _code(
        "GCP connections need google-auth, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[gcp]'.",
    ),
    "SQ4050": _code(
        "No Spark master, or Kubernetes API server, answers at the address that MASTER names.",
        "Start the master, or correct MASTER and what lies between: a firewall, a name that does not resolve.",
        retryable=True,
    ),
    "SQ4051": _code(
        "The cluster has given the sinks no executor: no worker has the cores and the memory that are free, "
        "executors end as soon as they start, or they do not reach this machine. Or its master was started anew and "
        "does not know the application any more.",
        "Ask for fewer CORES and less MEMORY, or free some; set spark.driver.host in CONF to an address of this "
        "machine that executors reach. After a restart of the master sinks go on by themselves, in a new application.",
        retryable=True,
    ),
    "SQ4052": _code(
        "The executors' Python does not run SinkQL: it is not there, or its version is not the one of the Python "
        "that SinkQL runs with.",
        "Install that version on all machines of the cluster, or name it by spark.pyspark.python in CONF.",
    ),
    "SQ4053": _code(
        "A package that SinkQL needs cannot be packed for executors, because it is installed in editable mode.",
        "Install it without --editable.",
    ),
    "SQ4054": _code(
        "The archive of packages for executors cannot be written.",
        "Make room, or name another file; XDG_CACHE_HOME says where those are that a cluster makes by itself.",
    ),
    "SQ4055": _code(
        "Executors ended while they ran a batch, more often than Spark tries a task again: their machines went, or "
        "their memory ran out.",
        "Usually nothing: the sink tries the batch again, with growing pauses. If the error stays, give executors more "
        "MEMORY, and read their logs.",
        retryable=True,
    ),
    "SQ4056": _code(
        "The Kubernetes API server refuses what Spark asks for: the account may not make pods and their settings, look "
        "at them and delete them, or is not known, or a quota is used up.",
        "Give it the role of deploy/kubernetes.yaml in the namespace that spark.kubernetes.namespace in CONF names. "
        "The sinks go on by themselves.",
        retryable=True,
    ),
}
