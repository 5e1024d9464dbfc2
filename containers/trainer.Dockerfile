# syntax=docker/dockerfile:1
# The reference trainer for GPU hosts with EFA, as a SageMaker training container.
#
#   docker build -f containers/trainer.Dockerfile -t ACCOUNT.dkr.ecr.REGION.amazonaws.com/everstep-dev/trainer:TAG .
#
# Not built on this project's machines, which reach neither NVIDIA's and AWS's registries nor the EFA
# installer: hadolint reads it and tests compare it with containers/versions.toml, no more than that.
ARG BASE_IMAGE=nvidia/cuda:13.0.2-runtime-ubuntu24.04
FROM ${BASE_IMAGE}

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive

# Versions of Ubuntu's packages are those of the base image's release: the base is what is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates curl gnupg python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

# User-space EFA: libfabric and the NCCL plugin. The kernel module is the host's. The signature is
# checked against the key that AWS documents. --disable-ngc: from 1.48 on, without it the installer may
# take an NVIDIA base for an NGC one and leave the plugin out.
ARG EFA_INSTALLER=1.49.0
ARG EFA_KEY_FINGERPRINT=4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
WORKDIR /tmp/efa
# The installer wants to be run from its own folder, which this same layer removes.
# hadolint ignore=DL3003
RUN base=https://efa-installer.amazonaws.com \
    && archive="aws-efa-installer-${EFA_INSTALLER}.tar.gz" \
    && curl -fsSLO --retry 3 "${base}/${archive}" \
    && curl -fsSLO --retry 3 "${base}/${archive}.sig" \
    && curl -fsSLO --retry 3 "${base}/aws-efa-installer.key" \
    && gpg --batch --import aws-efa-installer.key \
    && gpg --batch --status-fd 1 --verify "${archive}.sig" "${archive}" \
        | grep "^\[GNUPG:\] VALIDSIG ${EFA_KEY_FINGERPRINT} " \
    && tar -xf "${archive}" \
    && apt-get update \
    && (cd aws-efa-installer \
        && ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify --disable-ngc) \
    && ldconfig \
    && test -e /opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so \
    && rm -rf /tmp/efa /root/.gnupg /var/lib/apt/lists/*

ARG TORCH=2.13.0
ARG NUMPY=2.4.6
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
RUN python3 -m venv /opt/everstep \
    && /opt/everstep/bin/pip install --no-cache-dir \
        "torch==${TORCH}" "numpy==${NUMPY}" "tokenizers==${TOKENIZERS}" "safetensors==${SAFETENSORS}" \
        "boto3==${BOTO3}" "pydantic==${PYDANTIC}" "torchao==${TORCHAO}" \
        "tensorboard==${TENSORBOARD}" "mlflow-skinny==${MLFLOW_SKINNY}" \
        "sagemaker-mlflow==${SAGEMAKER_MLFLOW}"

# No NCCL_*, FI_* or RDMAV_* variable on purpose: with this libfabric and plugin the defaults are
# right, and NCCL_PROTO=simple of older advice now costs speed.
ENV PATH=/opt/everstep/bin:/opt/amazon/efa/bin:${PATH} \
    LD_LIBRARY_PATH=/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib:${LD_LIBRARY_PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/opt/ml/code

WORKDIR /opt/ml/code
COPY everstep/__init__.py everstep/__init__.py
COPY everstep/contracts everstep/contracts
COPY everstep/policy/__init__.py everstep/policy/checkpoint_interval.py everstep/policy/
COPY trainer trainer

# SageMaker runs the container as root and mounts /opt/ml for it. The entry point comes with the job
# (`trainer.command` of the run spec); this is what a bare `docker run` does.
CMD ["python", "-m", "trainer.launch", "--help"]
