"""What is deployed, as CDK constructs. Handlers appear here only as strings."""
