-- Write all tables of a Postgres database to Iceberg tables of the same names.
CREATE SECRET reader_password AS env_var('PGPASSWORD');
CREATE CONNECTION warehouse TO POSTGRES (
  HOST 'localhost',
  PORT 5432,
  DATABASE 'warehouse',
  USER 'reader',
  PASSWORD SECRET reader_password
);
CREATE CONNECTION iceberg TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'iceberg');

CREATE SOURCE everything
  FROM POSTGRES CONNECTION warehouse (PUBLICATION 'everything')
  FOR ALL TABLES;

CREATE SINKS FOR ALL TABLES OF SOURCE everything
  INTO ICEBERG CATALOG CONNECTION iceberg (NAMESPACE = 'raw')
  WITH (COMMIT INTERVAL = '10s');
