SELECT
    s.name,
    s.type,
    ss.status,
    ss.error
FROM mz_sinks s
JOIN mz_internal.mz_sink_statuses ss ON s.id = ss.id
WHERE s.name = 'user_activity_iceberg';

SELECT
    id,
    namespace,
    table
FROM mz_catalog.mz_iceberg_sinks
WHERE id = (SELECT id FROM mz_sinks WHERE name = 'user_activity_iceberg');
