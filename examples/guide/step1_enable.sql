ALTER SYSTEM SET enable_iceberg_sink = true;
