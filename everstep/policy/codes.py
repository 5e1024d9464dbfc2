"""Numbers and names that systems give to their errors, folded by what they ask for.

Sources: errno(3) and its messages; CUDA's ``cudaError`` table and cuBLAS's, cuDNN's statuses;
NVIDIA's Xid catalogue; ``signal(7)`` and the shell's exit codes; the error shapes of botocore's
service models (a 4xx names what the caller did, a 5xx or a throttle what the service did); HTTP.
"""

import re

_SAID = {
    4: "Interrupted system call",
    5: "Input/output error",
    11: "Resource temporarily unavailable",
    12: "Cannot allocate memory",
    13: "Permission denied",
    16: "Device or resource busy",
    23: "Too many open files in system",
    24: "Too many open files",
    26: "Text file busy",
    28: "No space left on device",
    30: "Read-only file system",
    32: "Broken pipe",
    98: "Address already in use",
    100: "Network is down",
    101: "Network is unreachable",
    103: "Software caused connection abort",
    104: "Connection reset by peer",
    107: "Transport endpoint is not connected",
    108: "Cannot send after transport endpoint shutdown",
    110: "Connection timed out",
    111: "Connection refused",
    112: "Host is down",
    113: "No route to host",
    116: "Stale file handle",
    121: "Remote I/O error",
    122: "Disk quota exceeded",
}
"""Linux's numbers: where a log is read, they may be others."""
_NAMED = {
    4: "EINTR",
    5: "EIO",
    11: "EAGAIN",
    12: "ENOMEM",
    13: "EACCES",
    16: "EBUSY",
    23: "ENFILE",
    24: "EMFILE",
    26: "ETXTBSY",
    28: "ENOSPC",
    30: "EROFS",
    32: "EPIPE",
    98: "EADDRINUSE",
    100: "ENETDOWN",
    101: "ENETUNREACH",
    103: "ECONNABORTED",
    104: "ECONNRESET",
    107: "ENOTCONN",
    108: "ESHUTDOWN",
    110: "ETIMEDOUT",
    111: "ECONNREFUSED",
    112: "EHOSTDOWN",
    113: "EHOSTUNREACH",
    116: "ESTALE",
    121: "EREMOTEIO",
    122: "EDQUOT",
}


def _errnos(*numbers: int) -> str:
    """As Python writes them (``[Errno 5]``), as C and Go do, as kernels and Rust do."""
    said = "|".join(re.escape(_SAID[n]) for n in numbers)
    some = "|".join(map(str, numbers))
    named = "|".join(_NAMED[n] for n in numbers)
    numbered = rf"\b(?:errno|os error)[ :=]+(?:{some})\b|\brc[ :=]+-(?:{some})\b"
    return rf"(?:(?i:(?:{said})\b|{numbered})|\b(?:{named})\b)"


# ENOENT, EINVAL, EEXIST and the like are the program's own: see ``PYTHON``.
ERRNO_STORAGE = _errnos(5, 107, 108, 112, 116, 121)
ERRNO_FULL = _errnos(28, 122)
ERRNO_MEMORY = _errnos(12)
ERRNO_BROKEN = _errnos(30)
ERRNO_CONFIG = _errnos(13, 23, 24, 98)
ERRNO_PASSING = _errnos(4, 11, 16, 26)
ERRNO_PEER = _errnos(32, 100, 101, 103, 104, 110, 111, 113)

# What broke by Xid: NVIDIA's catalogue (RESTART_APP, RESET_GPU, RESTART_BM, …), folded.
XID_PROGRAM = "8|13|31|32|43|45|68|69|137"
XID_CONTAINED = "63|92|94|141|160"
XID = r"(?:\bXid \(PCI[^)]*\):? |\b[Xx][Ii][Dd](?: [Ee]rror)?[- :]{0,2}|XID[- ]?)"

# What cudaGetErrorString and cudaGetErrorName say.
CUDA_BROKEN = (
    r"CUDA-capable device\(s\) is/are busy|devices are busy or unavail|CUDA unknown error"
    r"|hardware stack error|call between the MPS|system not yet initialized|CUDA error(?: \d+)?: ("
    r"?:unknown error|initi"
    r"alization "
    r"error|no CUDA-capable device|external device|MPS )|no CUDA-capable device is detected"
    r"|cudaError(?:ECCUncorrectable|DevicesUnavailable|HardwareStackError|NvlinkUncorrectable"
    r"|SystemNotReady|Unknown|NoDevice|InitializationError|Mps\w+|ExternalDevice)\b"
    r"|CUDA_ERROR_(?:ECC_\w+|DEVICE_UNAVAILABLE|HARDWARE_STACK_ERROR|NVLINK_\w+|SYSTEM_NOT_READY"
    r"|UNKNOWN|NO_DEVICE|NOT_INITIALIZED|MPS_\w+)\b"
)
CUDA_CONFIG = (
    r"driver version is insufficient|no NVIDIA driver|No CUDA GPUs|no kernel image|[Tt]orch not com"
    r"piled with CUDA|invalid device ordinal|No visible (?:\w+ )?devices|no GPUs? (?:are )?(?:foun"
    r"d|available|visible)|driver on your system is too old|the provided PTX|PTX "
    r"JIT compil|kernel image is invalid|invalid device function|forward compatibility was attempt"
    r"ed|unsupported display driver|not supported in the installed"
    r" CUDA|named symbol not found|STATUS_ARCH_MISMATCH|VERSION_MISMATCH"
    r"|cudaError(?:InsufficientDriver|NoKernelImage\w*|InvalidDevice|UnsupportedPtx\w*|InvalidPtx"
    r"|SystemDriverMismatch|CompatNotSupported\w*|CallRequiresNewerDriver)\b"
)
CUDA_MISUSE = (
    r"CUDA error: (?:invalid (?!device)|operation not|peer access|too many resources"
    r"|misaligned|an illegal instruction)|misaligned address|illegal instruction was enc"
    r"|cudaError(?:Invalid(?!Device\b)\w+|Assert|MisalignedAddress|IllegalInstruction"
    r"|LaunchOutOfResources|NotSupported|StreamCapture\w*|PeerAccess\w+)\b"
    r"|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT)_STATUS_(?:INVALID_\w+|NOT_SUPPORTED|BAD_PARAM\w*)"
)

# Exit codes: a shell's 126 to 128 say that nothing was started; 128 + n and -n are signal n.
_EXIT = (
    r"(?i:exit ?code\b[\s:=]*|exit status |exited with (?:code |status )?|return ?code[:= ]+)\(?"
)
EXIT_START = rf"{_EXIT}12[678]\b"
EXIT_CRASH = rf"{_EXIT}(?:13[2569]|-[478]|-11)\b"
EXIT_ABORT = rf"{_EXIT}(?:134|-6)\b"
EXIT_KILLED = rf"{_EXIT}(?:137|-9)\b"
EXIT_TERM = rf"{_EXIT}(?:143|-15)\b"
EXIT_ANY = rf"{_EXIT}-?[1-9]|exited with exit code"

# AWS: the stem of a code says what it is, whatever service made it.
BUSY = (
    r"\w*Throttl\w*|\w*TooManyRequests\w*|\w*(?:Request|Bandwidth)LimitExceeded|\w*Throughput\w*Exc"
    r"eeded\w*|(?:\w*LimitExceeded\w*: .*[Rr]ate (?:was )?exceeded)|\w*Unavailable(?!InRegion)\w*"
    r"|\w*Busy\w*|PriorRequestNotComplete|\w*Concurrent\w*|429|\w*SlowDown|\w*Contention\w*"
    r"|\w*InProgress\w*|OperationAborted\w*|ConditionalRequestConflict|TransactionC\w+"
    r"|\w*PropagationDelay\w*|\w*NotStabilized\w*"
)
ILL = (
    r"InternalFailure\w*|InternalError\w*|InternalServ\w*(?:Exception|Error)|Internal(?:Dependency"
    r"|Service|Streaming)?\w*|ServiceFailure|ServiceException|ServerException|\w*Unexpected\w*"
    r"|\w*Time(?:out|dOut)\w*|RequestExpired|(?:HTTP )?50[0234]|\w*CommunicationError|KMSInternal"
    r"\w*"
)
REFUSED = (
    r"Validation\w*|bad-parameters|constraint-not-fulfillable|schedule-expired|\w*AccessDenied\w*|"
    r"\w*Unauthorized\w*|\w*NotAuthorized\w*|\w*Invalid\w*"
    r"|\w*Not(?:Found|Supported|Enabled|Permitted|Available\w*)\w*|\w*NoSuch\w*|\w*DoesNotExist\w*"
    r"|Unsupported\w*|\w*Expired\w*|UnrecognizedClient\w*|KMS\.?\w+|Kms\w+|ParamValidationError"
    r"|NoCredentials\w*|NoRegion\w*|Missing\w+|Malformed\w*|\w*Forbidden\w*|BadRequest\w*|DryRun\w*"
    r"|PartialCredentials\w*|CredentialRetrieval\w*|Client\.\w+|Signature\w+|40[0134]|\w*NotReady"
    r"|OptInRequired|PendingVerification|AuthFailure|Unknown\w+(?:Error|Exception|Operation)"
    r"|TokenRefreshRequired|SSO\w*|ProfileNotFound|ConfigNotFound|\w*Mismatch\w*|\w*AlreadyExists"
    r"\w*"
    r"|\w*Disabled\w*|Blocked|\w*TooLarge|\w*TooLong|\w*Login\w+"
)
OBJECT = r"\[calling (?:\w*Objects?(?:V2)?|\w*MultipartUpload\w*|UploadPart\w*|Amazon S3)\]"
ROOM = (
    r"CapacityError|capacity-(?:not-available|oversubscribed)|price-too-low|\w+-group-constraint|("
    r"?:Server\.)?Insufficient\w*Capacity\w*|UnfulfillableCapacity"
    r"|ReservationCapacityExceeded|SpotMaxPriceTooLow|(?:Server\.)?InsufficientFreeAddresses\w*"
    r"|NoFreeAddressesInSubnet|SubnetIPAddressLimitReached\w*|InsufficientHostCapacity"
    r"|CapacityNotAvailable\w*"
)

# Python: an exception's module says whose it is, whatever its name.
MODULE_DATA = (
    r"\b(?:tarfile|zipfile|gzip|lzma|bz2|pyarrow(?:\.\w+)*|datasets(?:\.\w+)*|json\.decoder|PIL(?:"
    r"\.\w+)*"
    r"|h5py(?:\.\w+)*|pandas\.errors|lmdb|struct|safetensors_rust|webdataset(?:\.\w+)*|fas"
    r"tavro(?:\.\w+)*|csv|librosa(?:\.\w+)*|soundfile|streaming\.base(?:\.\w+)*)\.[A-Za-z]\w*\b"
)
MODULE_CONFIG = (
    r"\b(?:hydra|omegaconf|pydantic(?:_core)?|yaml|toml\w*|jsonschema|click|typer|jsonargparse|arg"
    r"parse"
    r"|configparser|draccus|tyro|absl\.flags)(?:\.\w+)*\.[A-Z]\w*\b"
)
MODULE_NETWORK = (
    r"\b(?:urllib3|requests|aiohttp|httpx|httpcore|grpc|http\.client|urllib\.error|socket|ssl|aiob"
    r"otocore"
    r"|websockets?|paramiko|redis|zmq|etcd)(?:\.\w+)*\.(?!(?:c|cc|cpp|cu|h|hpp|py|go|rs)\b)[A-Za-z"
    r"]\w*\b|\bCommError\b"
)

# HTTP, however a client prints it: the answer, not the number alone.
_HTTP = (
    r"(?i:\bHTTP(?:/[\d.]+|Error)?[ :]+|\bstatus(?:[_ ]?code)?\b[\"' ]*[:= (]+|\bresponse_status: )"
)
_TEXT = r" (?:\w+ Error|Service Unavail|Bad Gateway|Gateway Time|Slow ?Down|Internal Server)"
HTTP_ILL = rf"{_HTTP}50[0234]\b|\b50[0234]{_TEXT}"
HTTP_BUSY = rf"{_HTTP}429\b|\b429\b.{{0,40}}(?:Too Many|[Rr]ate)|Too Many Requests|toomanyrequests"
HTTP_REFUSED = rf"{_HTTP}40[134]\b|\b40[134] (?:Client Error|Unauthorized|Forbidden|Not Found)"
