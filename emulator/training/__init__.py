"""SageMaker training jobs as processes of this machine."""
