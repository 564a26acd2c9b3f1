-- Create PostgreSQL source
CREATE SOURCE pg_users
FROM POSTGRES CONNECTION pg_conn (
    PUBLICATION 'mz_source'
)
FOR TABLES (public.users);

-- Sink raw CDC data to Iceberg
CREATE SINK users_cdc_iceberg
    FROM pg_users
    INTO ICEBERG CATALOG CONNECTION iceberg_catalog (
        NAMESPACE 'raw',
        TABLE 'users'
    )
    USING AWS CONNECTION aws_conn
    KEY (id) ENFORCED
    ENVELOPE UPSERT
    WITH (COMMIT INTERVAL = '30s');
