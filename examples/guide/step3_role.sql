CREATE CONNECTION aws_conn TO AWS (
    ASSUME ROLE ARN = 'arn:aws:iam::123456789012:role/MaterializeIcebergRole',
    REGION = 'us-east-1'
);
