# syntax=docker/dockerfile:1
# The reference trainer on an AWS Deep Learning Container: PyTorch, CUDA, EFA, NCCL and the plugin are AWS's.
#
#   docker build -f containers/dlc.Dockerfile --build-arg BASE_IMAGE=… -t ACCOUNT.dkr.ecr.REGION.amazonaws.com/everstep-dev/trainer:TAG .
#
# BASE_IMAGE has no default: it depends on region and torch version, and the images stack gives it
# (stacks/dlc.py). Not built on this project's machines, which do not reach AWS's registries.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# Neither torch nor numpy: the base's own belong together with its CUDA and NCCL, and no package
# below may replace them.
# No secret: the rule sees "token" in the name.
# hadolint ignore=DL3064
ARG TOKENIZERS=0.23.3
ARG SAFETENSORS=0.8.0
ARG BOTO3=1.44.8
ARG PYDANTIC=2.14.4
ARG TORCHAO=0.18.0
ARG TENSORBOARD=2.21.0
ARG MLFLOW_SKINNY=3.17.2
ARG SAGEMAKER_MLFLOW=0.5.0
RUN versions='import numpy, torch; print(torch.__version__, numpy.__version__)' \
    && before="$(python -c "${versions}")" \
    && python -m pip install --no-cache-dir \
        "tokenizers==${TOKENIZERS}" "safetensors==${SAFETENSORS}" "boto3==${BOTO3}" \
        "pydantic==${PYDANTIC}" "torchao==${TORCHAO}" "tensorboard==${TENSORBOARD}" \
        "mlflow-skinny==${MLFLOW_SKINNY}" "sagemaker-mlflow==${SAGEMAKER_MLFLOW}" \
    && after="$(python -c "${versions}")" \
    && test "${before}" = "${after}"

ENV PYTHONUNBUFFERED=1 \
    PYTHONPATH=/opt/ml/code

WORKDIR /opt/ml/code
COPY everstep/__init__.py everstep/__init__.py
COPY everstep/contracts everstep/contracts
COPY everstep/policy/__init__.py everstep/policy/checkpoint_interval.py everstep/policy/
COPY trainer trainer
# The parts fit together, or there is no image. What needs a host with EFA is asked when a job starts.
RUN printf '#!/bin/sh\nexec python -m trainer.efa_check "$@"\n' > /usr/local/bin/efa-check \
    && chmod 755 /usr/local/bin/efa-check \
    && /usr/local/bin/efa-check --image

# SageMaker runs the container as root and mounts /opt/ml for it. The entry point comes with the job.
CMD ["python", "-m", "trainer.launch", "--help"]
