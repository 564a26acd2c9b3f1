"""Error codes of failures of the environment and of remote services."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4001": _code(
        "Spark needs Java, and no Java is installed, or the one in JAVA_HOME does not start.",
        "Install a Java 17 runtime, or set JAVA_HOME to one.",
    ),
    "SQ4002": _code(
        "The Java that was found is too old for Spark.",
        "Install a Java 17 runtime, or set JAVA_HOME to one.",
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
    "SQ4101": _code(
        "The file is a database of another program.",
        "Name another file with --catalog.",
    ),
    "SQ4102": _code(
        "The catalog file was written by another version of SinkQL.",
        "Use the version that wrote the file.",
    ),
    "SQ4103": _code(
        "The catalog file is damaged.",
        "Restore a backup of the file.",
    ),
    "SQ4104": _code(
        "Another process has locked the catalog file for longer than SinkQL waits.",
        "Try again. If the error stays, find the program that keeps the file open.",
        retryable=True,
    ),
    "SQ4105": _code(
        "The catalog file cannot be created or written.",
        "Check that the folder exists and belongs to you, and that the disk is not full. A running sink goes on by "
        "itself.",
        retryable=True,
    ),
    "SQ4106": _code(
        "The text of an item in the catalog file is not a CREATE statement of this version.",
        "Restore a backup of the file.",
    ),
    "SQ4107": _code(
        "The key file that encrypts the secrets of the catalog is missing.",
        "Restore the file, or set SINKQL_CATALOG_KEY.",
    ),
    "SQ4108": _code(
        "A secret was encrypted with another key than the one at hand.",
        "Restore the key file or variable with which the secret was created, or drop the secret and create it again.",
    ),
    "SQ4109": _code(
        "Other users may read the key file.",
        "Run chmod 600 on the file.",
    ),
    "SQ4110": _code(
        "A secret reads an environment variable that is not set.",
        "Set the variable before the job starts.",
    ),
    "SQ4111": _code(
        "A secret reads a file that does not exist, cannot be read, or is not UTF-8.",
        "Correct the path, the permissions or the content of the file.",
    ),
    "SQ4112": _code(
        "The key file or variable does not have a key of 32 bytes in base64.",
        "Write a key that openssl rand -base64 32 makes.",
    ),
    "SQ4113": _code(
        "The catalog is given as a URL of a database other than SQLite.",
        "Name a file, or write sqlite:///path/to/catalog.db.",
    ),
    "SQ4114": _code(
        "Other users may read or write the catalog file or its .sinkql folder, or another user owns the folder.",
        "Run chmod 600 on the file and chmod 700 on the folder; run sinkql as the user who owns them.",
    ),
    "SQ4115": _code(
        "The catalog file does not exist.",
        "Name the file with --catalog, or run sinkql exec FILE to create one.",
    ),
    "SQ4116": _code(
        "Parts of the catalog file contradict each other, because another program changed it.",
        "Restore a backup of the file.",
    ),
    "SQ4117": _code(
        "The file that a backup should be written to exists already.",
        "Name another file.",
    ),
    "SQ4120": _code(
        "A secret needs a Python package that is not installed.",
        "Install it as the hint shows.",
    ),
    "SQ4121": _code(
        "A secret reads a keyring, and this machine has none, or it fails.",
        "Run keyring diagnose, or use env_var or file instead.",
    ),
    "SQ4122": _code(
        "A secret reads a keyring that is locked.",
        "Unlock the keyring and start the job again, or use env_var or file instead.",
    ),
    "SQ4123": _code(
        "The keyring has no entry of this service and name.",
        "Add the entry with keyring set, as the user who runs the job.",
    ),
    "SQ4124": _code(
        "The command sinkql secret set was given an empty value.",
        "Type the value, or pipe it in.",
    ),
    "SQ4125": _code(
        "The command sinkql secret set was given bytes that are not UTF-8.",
        "Store the value as base64 and decode it in SQL, or keep it in a file.",
    ),
    "SQ4126": _code(
        "A notice: a connection holds a password or key as text, and the compiled jobs contain it.",
        "Write SECRET name instead, or keep the jobs as private as the script.",
    ),
    "SQ4130": _code(
        "A secret reads Vault, and VAULT_ADDR is not set or is not a URL.",
        "Set VAULT_ADDR, as in https://host:8200, before the job starts.",
    ),
    "SQ4131": _code(
        "A secret reads Vault, and there is no token.",
        "Set VAULT_TOKEN before the job starts, or run vault login.",
    ),
    "SQ4132": _code(
        "The Vault server does not answer.",
        "Check VAULT_ADDR, the network, and that the server runs.",
    ),
    "SQ4133": _code(
        "The certificate of the Vault server is not signed by an authority that this machine trusts.",
        "Set VAULT_CACERT to the certificate of the authority.",
    ),
    "SQ4134": _code(
        "The Vault server rejects the token, or its policy does not allow reading the path.",
        "Use a valid token whose policy allows reading the path.",
    ),
    "SQ4135": _code(
        "The Vault server has no secret at the path.",
        "Write the path as vault kv get takes it, without /data/.",
    ),
    "SQ4136": _code(
        "The secret in Vault has no field of this name.",
        "Use one of the fields that the hint lists.",
    ),
    "SQ4137": _code(
        "The Vault server is sealed.",
        "Unseal it, and start the job again.",
    ),
    "SQ4138": _code(
        "The Vault server answers with an error of its own.",
        "Look into the log of the server.",
    ),
    "SQ4139": _code(
        "The server at VAULT_ADDR is not a Vault server, or has no KV store at the path.",
        "Set VAULT_ADDR to the root of the active server, and check the path.",
    ),
    "SQ4140": _code(
        "A secret reads AWS Secrets Manager, and there are no credentials.",
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, before the job starts.",
    ),
    "SQ4141": _code(
        "A secret reads AWS Secrets Manager, and no region is set.",
        "Set AWS_REGION before the job starts, or name the secret by its ARN.",
    ),
    "SQ4142": _code(
        "AWS Secrets Manager does not answer.",
        "Check AWS_REGION, AWS_ENDPOINT_URL and the network.",
    ),
    "SQ4143": _code(
        "AWS rejects the credentials, or they do not allow reading the secret.",
        "Use valid keys that allow secretsmanager:GetSecretValue on the secret.",
    ),
    "SQ4144": _code(
        "AWS Secrets Manager has no secret of this id in the region, or it is scheduled for deletion.",
        "Check the id and AWS_REGION.",
    ),
    "SQ4145": _code(
        "The AWS secret is not a JSON object with this field.",
        "Use one of the fields that the hint lists, or leave the field out.",
    ),
    "SQ4146": _code(
        "The AWS secret is binary and not UTF-8 text.",
        "Store the secret as text.",
    ),
    "SQ4147": _code(
        "AWS Secrets Manager answers with an error of its own.",
        "Try again. If the error stays, look at the secret with aws secretsmanager describe-secret.",
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
    "SQ4260": _code(
        "A schema registry cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the registry runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4261": _code(
        "A schema registry rejects the user, the password or the certificate of its connection, or does not let the "
        "user read its schemas.",
        "Check USER and PASSWORD, or SSL CERTIFICATE and SSL KEY, in CREATE CONNECTION. A running sink tries again by "
        "itself.",
        retryable=True,
    ),
    "SQ4262": _code(
        "URL of the connection is not the address of a schema registry.",
        "Correct URL in CREATE CONNECTION. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4263": _code(
        "The certificate of a schema registry is not signed by an authority that this machine trusts, or the server at "
        "URL does not use TLS.",
        "Give the authority's certificate in SSL CERTIFICATE AUTHORITY, or correct URL in CREATE CONNECTION. A running "
        "sink tries again by itself.",
        retryable=True,
    ),
    "SQ4264": _code(
        "A certificate or key of a schema registry connection is not one in PEM, or the two do not belong together.",
        "Give the secrets the whole text of the PEM files: ALTER SECRET name AS file('key.pem'). A running sink tries "
        "again by itself.",
        retryable=True,
    ),
    "SQ4265": _code(
        "A schema registry answers with an error of its own.",
        "Look at the detail and the log of the registry. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4270": _code(
        "No broker of Kafka answers.",
        "Check BROKER in CREATE CONNECTION, and that Kafka runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4271": _code(
        "Kafka does not let the user of a connection in.",
        "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION. A running sink tries again by "
        "itself.",
        retryable=True,
    ),
    "SQ4272": _code(
        "The certificate of a broker of Kafka is not signed by an authority that this machine trusts, or it rejects "
        "that of the connection.",
        "Give the authority's certificate in SSL CERTIFICATE AUTHORITY, or check SSL CERTIFICATE and SSL KEY. A "
        "running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4273": _code(
        "A broker of Kafka speaks another protocol at this port than the connection does.",
        "Check SECURITY PROTOCOL and BROKER in CREATE CONNECTION. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4274": _code(
        "Kafka has no topic of this name, or hides it from the user of the connection.",
        "Check TOPIC, or create the topic.",
    ),
    "SQ4275": _code(
        "Kafka does not allow the user of the connection to read the topic.",
        "Grant the user DESCRIBE and READ on the topic. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4276": _code(
        "A certificate or a key of a connection to Kafka is not one in PEM, or the two do not belong together.",
        "Give the secrets the whole text of the PEM files: ALTER SECRET name AS file('key.pem'). A running sink tries "
        "again by itself.",
        retryable=True,
    ),
    "SQ4277": _code(
        "Kafka answers with an error of its own.",
        "Look at the detail and the log of the brokers. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4266": _code(
        "FORMAT PROTOBUF needs protobuf and grpcio-tools, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[protobuf]'.",
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
            "A source was dropped, and what its server keeps for it, such as a replication slot, could not be deleted: "
            "the server does not answer, or does not let the user of the connection do that."
        ),
        "Delete it on the server; until then a replication slot holds the server's log.",
    ),
}
