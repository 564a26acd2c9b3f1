-- Create an aggregation view
CREATE MATERIALIZED VIEW daily_sales_summary AS
SELECT
    product_id,
    DATE_TRUNC('day', order_timestamp) as sale_date,
    COUNT(*) as order_count,
    SUM(quantity) as total_quantity,
    SUM(revenue) as total_revenue
FROM orders
GROUP BY product_id, DATE_TRUNC('day', order_timestamp);

-- Sink to Iceberg
CREATE SINK daily_sales_iceberg
    FROM daily_sales_summary
    INTO ICEBERG CATALOG CONNECTION iceberg_catalog (
        NAMESPACE 'sales',
        TABLE 'daily_summary'
    )
    USING AWS CONNECTION aws_conn
    KEY (product_id, sale_date) ENFORCED
    ENVELOPE UPSERT
    WITH (COMMIT INTERVAL = '5min');
