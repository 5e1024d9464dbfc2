# syntax=docker/dockerfile:1
# The reference trainer for GPU hosts with EFA, as a SageMaker training container.
#
#   docker build -f containers/trainer.Dockerfile -t ACCOUNT.dkr.ecr.REGION.amazonaws.com/everstep-dev/trainer:TAG .
#
# Not built on this project's machines, which reach neither NVIDIA's and AWS's registries nor the EFA
# installer: hadolint reads it and tests compare it with containers/versions.toml, no more than that.
ARG BASE_IMAGE=nvidia/cuda:13.0.2-runtime-ubuntu24.04@sha256:6a0e31b59e70890446f2c17356d6efc0d54260090a8c63d6ca7c2ad049db95d2
ARG BUILD_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04@sha256:5dc1bca23d05bd37b011be68ec470c03b403a5da07ec3a86e41af9470e9d0cc6

# What has to be compiled: GDRCopy's library and NVIDIA's tests of NCCL. The compiler stays here.
FROM ${BUILD_IMAGE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        build-essential ca-certificates git libopenmpi-dev python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# A tag may be moved, a commit may not. Only the library: the module gdrdrv is the host's.
ARG GDRCOPY=2.5.2
ARG GDRCOPY_COMMIT=c91ad9f178e5fb729fc5b6dc62a77c3bb364d6c9
RUN git clone --quiet --depth 1 --branch "v${GDRCOPY}" https://github.com/NVIDIA/gdrcopy \
    && test "$(git -C gdrcopy rev-parse HEAD)" = "${GDRCOPY_COMMIT}" \
    && make -C gdrcopy prefix=/opt/gdrcopy CUDA=/usr/local/cuda lib_install
# Headers and library are those of the wheel that this torch asks for. Ubuntu's Open MPI and the EFA
# installer's share the interface libmpi.so.40; at run time it is the installer's.
ARG NCCL=2.29.7
ARG NCCL_TESTS=2.19.6
ARG NCCL_TESTS_COMMIT=a0b82b2260cf5152b9f8c061bbf7eaf0ba096432
RUN python3 -m venv /src/nccl \
    && /src/nccl/bin/pip install --no-cache-dir "nvidia-nccl-cu13==${NCCL}" \
    && home="$(/src/nccl/bin/python -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')" \
    && ln -s libnccl.so.2 "${home}/lib/libnccl.so" \
    && git clone --quiet --depth 1 --branch "v${NCCL_TESTS}" https://github.com/NVIDIA/nccl-tests \
    && test "$(git -C nccl-tests rev-parse HEAD)" = "${NCCL_TESTS_COMMIT}" \
    && make -C nccl-tests -j 8 MPI=1 MPI_HOME=/usr/lib/x86_64-linux-gnu/openmpi \
        CUDA_HOME=/usr/local/cuda NCCL_HOME="${home}" \
    && mkdir -p /opt/nccl-tests \
    && cp nccl-tests/build/*_perf /opt/nccl-tests/

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

# One NCCL for everyone, torch's own: the tests above find it through the loader's cache.
COPY --from=build /opt/gdrcopy /opt/gdrcopy
COPY --from=build /opt/nccl-tests /opt/nccl-tests
RUN /opt/everstep/bin/python -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' \
        > /etc/ld.so.conf.d/nccl.conf \
    && echo /opt/gdrcopy/lib > /etc/ld.so.conf.d/gdrcopy.conf \
    && ldconfig

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
# The parts fit together, or there is no image. What needs a host with EFA is asked when a job starts.
RUN printf '#!/bin/sh\nexec python -m trainer.efa_check "$@"\n' > /usr/local/bin/efa-check \
    && chmod 755 /usr/local/bin/efa-check \
    && /usr/local/bin/efa-check --image

# SageMaker runs the container as root and mounts /opt/ml for it. The entry point comes with the job
# (`trainer.command` of the run spec); this is what a bare `docker run` does.
CMD ["python", "-m", "trainer.launch", "--help"]
