"""Names that the stacks give and everyone else looks up: one spelling, in one place."""

STACKS = ("network", "storage", "images", "control-plane", "access", "observability")
"""In the order in which they are deployed."""

HANDLER_ALIAS = "live"
"""What the state machines call: a deploy moves it to a new version of a function."""

OUTPUT_MACHINE = "StateMachineArn"
"""Followed by the team's construct id: ``StateMachineArnResearch``. On the control plane."""
OUTPUT_VERSION = "EverstepVersion"
OUTPUT_TABLE = "TableName"
OUTPUT_TOPIC = "TopicArn"
OUTPUT_DEAD_LETTERS = "DeadLetters"
OUTPUT_QUEUE = "Queue"
"""Both followed by the events' name: ``DeadLettersJobEvents``, ``QueueJobEvents``: ARNs."""
OUTPUT_DATA = "DataBucket"
OUTPUT_CHECKPOINTS = "CheckpointBucket"
OUTPUT_OUTPUT = "OutputBucket"
"""These three are on the storage stack."""
OUTPUT_LUSTRE_MOUNT = "LustreMountName"
"""There too, where config asks for a file system."""


SHELL_MARK = "--"
"""Ends the team's name in the id of a run that people may look into. No team's name holds it, so
no team's pattern covers another team's jobs: Session Manager knows a job by its name alone."""


def stack_name(env: str, part: str) -> str:
    """The CloudFormation stack of an environment's part, one of ``STACKS``."""
    return f"everstep-{env}-{part}"


def machine_name(env: str, team: str) -> str:
    return f"everstep-{env}-{team}"


def function_name(env: str, handler: str) -> str:
    return f"everstep-{env}-{construct_id(handler)}"


def metrics_namespace(env: str) -> str:
    """Of what handlers emit: environments of one account are not mixed."""
    return f"Everstep/{env}"


def repository_name(env: str, image: str) -> str:
    return f"{registry_path(env)}/{image}"


def image_project_name(env: str, image: str) -> str:
    """The CodeBuild project that makes an image."""
    return f"everstep-{env}-{image}"


def image_log_group(env: str, image: str) -> str:
    """Where that project writes, as CodeBuild would name it."""
    return f"/aws/codebuild/{image_project_name(env, image)}"


def image_project_of(repository: str) -> str:
    """The project that fills a repository: ``everstep-dev/trainer`` → ``everstep-dev-trainer``."""
    return repository.replace("/", "-")


def registry_path(env: str) -> str:
    """What stands before ``trainer`` in the registry: environments share no image."""
    return f"everstep-{env}"


def job_role_name(env: str, team: str) -> str:
    return f"everstep-{env}-{team}-job"


def data_role_name(env: str, team: str) -> str:
    """The role of a team's data preparation."""
    return f"everstep-{env}-{team}-data"


def persona_role_name(env: str, persona: str) -> str:
    """``administrator``, ``researcher`` or ``viewer``: a role that people assume."""
    return f"everstep-{env}-person-{persona}"


def boundary_name(env: str, word: str) -> str:
    """A permission boundary: ``people``, ``data`` or ``jobs``."""
    return f"everstep-{env}-at-most-{word}"


def model_group_name(env: str, team: str) -> str:
    """The team's model package group."""
    return f"everstep-{env}-{team}"


def construct_id(name: str) -> str:
    """``check_quota`` → ``CheckQuota``: the construct, and the state, of a handler's folder."""
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def handler_folder(state: str) -> str:
    """``CheckQuota`` → ``check_quota``: the inverse of ``construct_id`` for states."""
    start, rest = state[0].lower(), state[1:]
    return start + "".join(f"_{c.lower()}" if c.isupper() else c for c in rest)
