"""The third-party code that a function may import: what AWS's Powertools layer and runtime hold."""

import importlib.metadata
from pathlib import Path

DISTRIBUTIONS = (
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "python-dateutil",
    "six",
    "urllib3",
    "aws-lambda-powertools",
    "typing-extensions",
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-inspection",
)


def build_layer(folder: Path) -> Path:
    """A folder of links to those packages and to nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DISTRIBUTIONS:
        distribution = importlib.metadata.distribution(name)
        tops = {Path(str(file)).parts[0] for file in distribution.files or []}
        for top in tops - {"..", "__pycache__"}:
            target = Path(str(distribution.locate_file(top)))
            link = folder / top
            if target.exists() and not link.is_symlink():
                link.symlink_to(target)
    return folder
