CREATE SINK user_activity_iceberg
    IN CLUSTER sink_cluster
    FROM user_activity_summary
    INTO ICEBERG CATALOG CONNECTION iceberg_catalog (
        NAMESPACE 'analytics',
        TABLE 'user_activity'
    )
    USING AWS CONNECTION aws_conn
    KEY (user_id, hour) ENFORCED
    ENVELOPE UPSERT
    WITH (
        COMMIT INTERVAL = '1min'
    );
