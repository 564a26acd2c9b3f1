from pyspark.sql import SparkSession

spark = SparkSession.builder \
    .config("spark.sql.catalog.my_catalog", "org.apache.iceberg.spark.SparkCatalog") \
    .config("spark.sql.catalog.my_catalog.type", "rest") \
    .config("spark.sql.catalog.my_catalog.uri", "https://polaris.example.com/api/catalog") \
    .getOrCreate()

df = spark.read.format("iceberg") \
    .load("my_catalog.analytics.user_activity")

df.show()
