"""What AWS, or the way to it, refused: in words, with what to do about it."""

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.exceptions import ConnectionError as NoConnection

from everstep.cli.errors import NOT_FOUND, CliError

DENIED = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"}
)
OLD = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
WRONG = frozenset(
    {"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure"}
)
SKEWED = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
SIGNATURE = frozenset({"SignatureDoesNotMatch", "InvalidSignatureException"})
LOGIN = "log in again: `aws sso login`, or what your team uses; `everstep doctor` checks it"


def explained(error: ClientError | BotoCoreError) -> CliError:
    """Exit code 3: AWS did not answer what was asked."""
    return CliError(f"AWS said: {' '.join(str(error).split())}", hint_of(error), NOT_FOUND)


def hint_of(error: ClientError | BotoCoreError) -> str:
    if isinstance(error, ClientError):
        return _by_code(error)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "AWS_PROFILE, or `aws configure sso`; of the emulator: everstep local env"
    if isinstance(error, SSOTokenLoadError | UnauthorizedSSOTokenError | TokenRetrievalError):
        return LOGIN
    if isinstance(error, ProfileNotFound):
        return "AWS_PROFILE names none of ~/.aws/config: `aws configure list-profiles`"
    if isinstance(error, NoRegionError):
        return "set AWS_REGION or AWS_DEFAULT_REGION, or region in the profile"
    if isinstance(error, HTTPClientError | NoConnection):
        return (
            "network, proxy (HTTPS_PROXY) or VPN; or AWS_ENDPOINT_URL names an emulator that has "
            "ended: everstep local status. A run that was started goes on"
        )
    return "credentials, region and AWS_ENDPOINT_URL are read as the AWS CLI reads them"


def _by_code(error: ClientError) -> str:
    code = str(error.response.get("Error", {}).get("Code", ""))
    words = str(error)
    if code in SKEWED or (code in SIGNATURE and ("expired" in words or "not yet" in words)):
        return "this machine's clock is off by more than five minutes: set it (NTP)"
    if code in OLD:
        return LOGIN
    if code in WRONG or code in SIGNATURE:
        return "AWS does not know these credentials: another profile or region? everstep doctor"
    if code in DENIED:
        return (
            "your role may not do that: a researcher of the run's team may; is AWS_PROFILE the "
            "one that you mean? docs/security.md has who may do what"
        )
    if "hrottl" in code or code in ("SlowDown", "TooManyRequestsException"):
        return "AWS is busy with this account's calls: again in a minute; the run does not mind"
    return "credentials, region and AWS_ENDPOINT_URL are read as the AWS CLI reads them"
