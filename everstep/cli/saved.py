"""What a run has committed, from the bucket itself: the table learns it when a launch has ended."""

from collections.abc import Sequence

from botocore.exceptions import BotoCoreError, ClientError

from everstep.cli.cloud import Cloud
from everstep.contracts.records import Launch, Run
from everstep.policy.job_request import checkpoint_uri
from lambdas.aws.checkpoints import Checkpoints


def committed_step(cloud: Cloud, run: Run, launches: Sequence[Launch]) -> int:
    """Step of the newest committed checkpoint; 0 for none. The table's, which may be an earlier
    one, where checkpoints lie on the file system or the bucket may not be listed."""
    known = [x.committed_step or x.resume_step for x in launches]
    if run.spec.checkpoint.storage == "s3":
        try:
            found = Checkpoints(cloud.client("s3")).steps(checkpoint_uri(run))
        except (ClientError, BotoCoreError):
            found = []  # a person may watch or stop a run without a right to its bucket
        known += [x.step for x in found]
    return max(known, default=0)
