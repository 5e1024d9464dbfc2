"""Pieces of patterns that more than one rule uses, or that need a word of their own."""

from re import Match


def never_fits(match: Match[str]) -> bool:
    """More is asked for than the whole limit."""
    return float(match["asked"]) > float(match["limit"])


# What broke by Xid: NVIDIA's catalogue (RESTART_APP, RESET_GPU, RESTART_BM, …), folded.
XID_PROGRAM = "8|13|31|32|43|45|68|69|137"
XID_CONTAINED = "63|92|94|141|160"
XID = r"(?:\bXid \(PCI[^)]*\):? |XID[- ]?)"

BUSY = (
    r"Throttl\w*|TooManyRequests\w*|RequestThrottled\w*|RequestLimitExceeded|EC2Throttled\w*"
    r"|ProvisionedThroughputExceeded\w*|(?:\w*LimitExceeded\w*: .*Rate exceeded)|ThrottledException"
    r"|\w+(?:Unavailable|TooBusy|Busy)(?:Exception)?|PriorRequestNotComplete"
    r"|ConcurrentModification\w*|429|SlowDown"
)
ILL = (
    r"Service_?Unavailable\w*|InternalFailure\w*|InternalError\w*|InternalServer\w*Exception"
    r"|ServerException|RequestTimeout\w*|RequestExpired|500|502|503|504"
)
OBJECT = r"\[calling (?:\w*Objects?(?:V2)?|\w*MultipartUpload\w*|UploadPart\w*|Amazon S3)\]"
ROOM = (
    r"CapacityError|(?:Server\.)?Insufficient\w*Capacity\w*|UnfulfillableCapacity"
    r"|ReservationCapacityExceeded|SpotMaxPriceTooLow|(?:Server\.)?InsufficientFreeAddresses\w*"
)
LIMIT = (
    r".*is (?P<limit>[\d.]+) [A-Z]\w+, with current utilization of [\d.]+ \w+ and a request delta "
    r"of (?P<asked>[\d.]+)"
)
FULL = (
    r"No space left on device|\[?Errno 28\]?|[Ii]nsufficient disk space|ENOSPC"
    r"|Disk quota exceeded"
)
MEMORY = r"[Oo]ut [Oo]f [Mm]emory|more memory|OutOfMemory"
CORRUPT = (
    r"(?:truncated|foreign|missing) shard|HeaderTooLarge|(?:Invalid|Incomplete)(?:Header"
    r"|Metadata)\w*"
    r"|PytorchStreamReader failed|central directory|magic (?:bytes|number)|ArrowInvalid"
    r"|JSONDecodeError"
    r"|UnicodeDecodeError|BadZipFile|BadGzipFile|UnidentifiedImageError|UnpicklingError|zlib\.error"
    r"|Compressed file ended|corrupt(?:ed)? (?:record|file|image|shard|data)"
    r"|DatasetGeneration\w*Error"
    r"|EmptyDatasetError|num_samples=0|Could not find response key|CastError|DataFilesNotFoundError"
    r"|No such file or directory: '?/opt/ml/input/data|checksum mismatch|(?:record"
    r"|file) is corrupt|Unable to load weights|unexpected EOF"
    r"|[Uu]nexpected end of (?:file|data)|(?:file|archive|stream) (?:is )?truncated"
)
LOUD = (
    r"ChildFailed|Dist(?:Backend|Network|Store)|ProcessGroup|[Cc]onnection|[Bb]roken ?[Pp]ipe"
    r"|[Tt]ime-?d? ?out|Rendezvous|ExecuteUserScript|AlgorithmError|closed by|reset by|unreachable"
    r"|SignalException|monitoredBarrier|gloo/transport|recvValue|was aborted|more than 1EB memory"
    r"|NCCL|An error occurred \(|exited unexpectedly|CalledProcessError|KeyboardInterrupt"
    r"|Socket|killed by signal"
    r"|CUDA error:|UnexpectedStatus|Error for \w+ job|StoreError|No route|RayActorError|ActorDied"
    r"|WorkerCrashed|NodeDied|SystemExit: (?:0|143|130)\b|ProcessExited|ProcessRaised|BrokenProcess"
)
PYTHON = (
    rf"^(?!.*(?:{LOUD}))(?:[\d:,.TZ+ -]{{8,40}})?\s*(?:\[[\w ]+\]:?\s*)*(?:ErrorMessage \"+)?"
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Iteration|Interrupt)(?::|\s*$)"
)
"""The last line of a traceback, behind torch's ``[rank3]:`` too; but no victim's exception."""
