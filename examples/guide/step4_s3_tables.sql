CREATE CONNECTION s3_tables_catalog TO ICEBERG CATALOG (
    CATALOG TYPE = 'S3TABLESREST',
    URL = 'https://s3tables.us-east-1.amazonaws.com',
    AWS CONNECTION = aws_conn,
    WAREHOUSE = 'my-s3-table-bucket'
);
