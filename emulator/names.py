"""The account the emulator pretends to be, and the names built from it."""

REGION = "us-east-1"
ACCOUNT = "123456789012"
PARTITION = "aws"


def arn(service: str, resource: str, region: str = REGION) -> str:
    """``arn:aws:{service}:{region}:{account}:{resource}``."""
    return f"arn:{PARTITION}:{service}:{region}:{ACCOUNT}:{resource}"


class AwsError(Exception):
    """An error that a service answers with: code, message, HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
