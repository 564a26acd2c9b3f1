CREATE CONNECTION iceberg_catalog TO ICEBERG CATALOG (
    CATALOG TYPE = 'REST',
    URL = 'https://polaris.example.com/api/catalog',
    CREDENTIAL = 'your-client-id:' || SECRET iceberg_oauth_secret,
    WAREHOUSE = 'my_warehouse',
    SCOPE = 'PRINCIPAL_ROLE:ALL'
);
