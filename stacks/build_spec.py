"""What CodeBuild does, in order: build, list what is in the image, store the list, push.

A bill of materials that cannot be made or stored fails the build before the push: no image is in
the registry without one. Nothing is downloaded that is not pinned: syft comes from PyPI by hash.
"""

SBOM_FOLDER = "_images/trainer"
"""In the output bucket. No team's prefix starts with an underscore."""

PULL = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetDownloadUrlForLayer",
)
PUSH = (
    *PULL,
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)

_LOGIN = "aws ecr get-login-password | docker login --username AWS --password-stdin "
_DESCRIBE = (
    'aws ecr describe-images --repository-name "${REPOSITORY#*/}" --image-ids "imageTag=${TAG}"'
)
_MAKE = " && ".join(
    (
        'docker build --file "${DOCKERFILE}" ${BASE_IMAGE:+--build-arg "BASE_IMAGE=${BASE_IMAGE}"} '
        '--tag "${REPOSITORY}:${TAG}" .',
        "python3 -m venv /tmp/syft",
        "/tmp/syft/bin/python -m pip install --quiet --require-hashes -r containers/syft.txt",
        "export SYFT_CHECK_FOR_APP_UPDATE=false",
        '/tmp/syft/bin/syft scan "docker:${REPOSITORY}:${TAG}" -o cyclonedx-json=/tmp/sbom.json',
        'aws s3 cp /tmp/sbom.json "${SBOM}"',
        'docker push "${REPOSITORY}:${TAG}"',
    )
)

BUILD_SPEC = {
    "version": "0.2",
    "phases": {
        "pre_build": {
            "commands": [
                _LOGIN + '"${REPOSITORY%%/*}"',
                # AWS's own images lie in a registry of their own, which wants a login too.
                'if [ -n "${BASE_IMAGE}" ]; then ' + _LOGIN + '"${BASE_IMAGE%%/*}"; fi',
            ]
        },
        "build": {
            "commands": [
                # Tags are immutable: what was built from this source is there, and is this.
                f"if {_DESCRIBE} > /dev/null 2>&1; then "
                f'echo "${{TAG}} is built already"; else {_MAKE}; fi',
            ]
        },
        "post_build": {
            "commands": [
                f'{_DESCRIBE} --query "imageDetails[0].imageDigest" --output text',
            ]
        },
    },
}
