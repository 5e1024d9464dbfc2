"""What SageMaker refuses of a request, said before there is one. Figures: botocore's own model of
CreateTrainingJob; a test compares every request we make with it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from everstep.contracts.problems import Problem

TAG = re.compile(r"[\w\s.:/=+\-@]*")
VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
IMAGE = re.compile(
    r"(?=.{1,200}$)([\w.-]+(:\d+)?/)?[a-z0-9._/-]+(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
"""A host with its port, a path, a tag and a digest, all but the path optional."""
MAX_ENVIRONMENT = 90
"""SageMaker takes 100; the rest is Everstep's own."""


def limit_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    """Each reads only sections that parsed."""
    yield from _tags(sections.get("tags") or {})
    trainer = sections.get("trainer")
    if trainer is not None:
        yield from _environment(trainer.environment)
        yield from _command(trainer.command, trainer.launcher)
        yield from _image("trainer.image", trainer.image)
        yield from _long("trainer.hyperparameters", trainer.hyperparameters, 256, 2500)
    finish = sections.get("finish")
    if finish is not None:
        yield from _image("finish.image", finish.image)
        yield from _image("finish.inference_image", finish.inference_image)


def _tags(tags: Mapping[str, str]) -> Iterator[Problem]:
    yield from _long("tags", tags, 128, 256)
    for key, value in tags.items():
        if not key or not TAG.fullmatch(key) or not TAG.fullmatch(value):
            yield Problem(
                path=f"tags.{key}",
                value=value,
                message="AWS does not take this tag",
                hint="letters, digits, spaces and _ . : / = + - @; the key is not empty",
            )
        elif key.lower().startswith(("aws:", "everstep:")):
            yield Problem(
                path=f"tags.{key}",
                value=value,
                message="the prefix of this tag is reserved",
                hint="choose a key that starts neither with aws: nor with everstep:",
            )


def _environment(environment: Mapping[str, str]) -> Iterator[Problem]:
    path = "trainer.environment"
    if len(environment) > MAX_ENVIRONMENT:
        yield Problem(
            path=path,
            value=len(environment),
            message=f"more than {MAX_ENVIRONMENT} variables",
            hint="put settings into hyperparameters, or into a file of the image",
        )
    yield from _long(path, environment, 512, 512)
    for key, value in environment.items():
        if not VARIABLE.fullmatch(key):
            yield Problem(
                path=f"{path}.{key}",
                value=value,
                message="is not the name of a variable",
                hint="letters, digits and _, not starting with a digit",
            )
        elif key.startswith("EVERSTEP_"):
            yield Problem(
                path=f"{path}.{key}",
                value=value,
                message="Everstep sets this variable itself",
                hint="choose a name that does not start with EVERSTEP_",
            )


def _command(command: list[str], launcher: str) -> Iterator[Problem]:
    if not 1 <= len(command) <= 100 or any(len(part) > 256 for part in command):
        yield Problem(
            path="trainer.command",
            value=command,
            message="SageMaker does not take this command",
            hint="1 to 100 words of at most 256 characters; put more into a script of the image",
        )
    if launcher == "mpi" and len(command) > 1:
        yield Problem(
            path="trainer.command",
            value=command,
            message="under launcher mpi the toolkit starts one program, without arguments",
            hint="give arguments as trainer.hyperparameters: they arrive as --name value",
        )


def _image(path: str, image: str | None) -> Iterator[Problem]:
    if image is not None and not IMAGE.fullmatch(image):
        yield Problem(
            path=path,
            value=image,
            message="is not an image",
            hint="repository:tag in the account's registry, or a whole image URI",
        )


def _long(path: str, given: Mapping[str, str], key_most: int, most: int) -> Iterator[Problem]:
    for key, value in given.items():
        if len(key) > key_most or len(value) > most:
            yield Problem(
                path=f"{path}.{key[:key_most]}",
                value=value,
                message="is too long",
                hint=f"names of at most {key_most} characters, values of at most {most}",
            )
