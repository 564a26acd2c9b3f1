"""The systems that SinkQL reads and writes. The registry finds a connector by listing this package.

Every session loads the packages of connectors. So their functions import the modules that load a library.

* `kafka`: Topics of Kafka, as sources and sinks.
* `confluent`: Schema registries, and their formats Avro and Protobuf.
* `postgres`: Tables of Postgres.
* `mysql`: Tables of MySQL and MariaDB.
* `sql_server`: Tables of SQL Server, which are declared and refused.
* `files`: Files in folders and object stores.
* `webhook`: Requests over HTTP.
* `generator`: Generated rows.
* `constant`: The rows of constant queries.
* `view`: The log of a materialized view.
* `iceberg`: Iceberg tables and catalogs.
* `aws`: Connections to AWS.
* `gcp`: Connections to Google Cloud.
* `ssh`: SSH tunnels.
"""
