-- For Iceberg catalog authentication (if using REST catalog)
CREATE SECRET iceberg_oauth_secret AS '<your-oauth-client-secret>';

-- For AWS S3 access
CREATE SECRET aws_secret AS '<your-aws-secret-access-key>';
