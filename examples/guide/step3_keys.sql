CREATE CONNECTION aws_conn TO AWS (
    ACCESS KEY ID = '<your-access-key-id>',
    SECRET ACCESS KEY = SECRET aws_secret,
    REGION = 'us-east-1'
);
