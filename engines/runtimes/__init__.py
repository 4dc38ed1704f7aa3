"""The only files that import an inference runtime, each behind the `Graph` protocol."""
