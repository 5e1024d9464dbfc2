"""The table: what a text means. Data only; ``classify`` is the engine that asks it.

STATUS is matched against ``{status}: {transitions} | {message}``; REASON at the *start* of a
FailureReason, or of an API error written as ``Code: message [calling Op]``; EVENT against the
``key=value`` pairs of a parsed Kubernetes, EventBridge or node event; LOG against each line that a
program printed; WORDS against the same lines, where nothing else was found. The first rule of a
source that matches a line is that line's. Which *line* wins is the engine's matter: causes before
symptoms before victims, then time.
"""

from functools import partial

from everstep.contracts.failures import Action, FailureClass
from everstep.policy import codes as c
from everstep.policy import patterns as p
from everstep.policy import words as w
from everstep.policy.event_rules import EVENT_RULES, QUEUED
from everstep.policy.rule import Role, Rule, Source

F, A = FailureClass, Action

_status, _reason = partial(Rule, Source.STATUS), partial(Rule, Source.REASON)
_log = partial(Rule, Source.LOG)
_symptom = partial(_log, role=Role.SYMPTOM, confidence=0.6)
_victim = partial(_log, role=Role.VICTIM, confidence=0.6)
_DOUBT = (F.USER_CODE, A.RETRY_SAME)
_LOOK = "only the look at the job failed"
_NOT_SURE = (F.UNKNOWN, A.RETRY_SAME)
_words = partial(Rule, Source.WORDS, role=Role.MURMUR, confidence=0.3, in_run=_NOT_SURE)
_sure = partial(_words, confidence=0.5)

# fmt: off
RULES: tuple[Rule, ...] = (
    # --- status: only Stopped has no reason, and only its transitions tell its kinds apart
    _status("stopped-max-runtime", F.MAX_RUNTIME, r"^Stopped: .*\bMaxRuntimeExceeded\b"),
    _status("stopped-spot-wait", F.INTERRUPTED, r"^Stopped: .*\bTraining\b.*\bMaxWaitTimeExceeded\b"
        r"", A.CONTINUE_AS_NEW),
    _status("stopped-max-wait", F.CAPACITY, r"^Stopped: .*\bMax(?:Wait|Pending)TimeExceeded\b"),
    # Only as the last word: after a reclaim that the service cured, Stopped is someone's stop.
    _status("stopped-spot", F.INTERRUPTED, r"^Stopped: (?:.* )?Interrupted \|"),
    _status("stopped", F.USER_STOP, r"^Stopped: "),
    _status("live-capacity", F.CAPACITY, r"^(?!Failed|Completed).*(?:\bPending \||[Ww]aiting for ca"
        r"pacity|[Ii]nsufficient capacity)", A.WAIT, "the service still looks for machines"),
    _status("live-repair", F.INFRASTRUCTURE, r"^(?!Failed|Completed).*(?:\bRestarting \||[Rr]epair"
        r"|hardware|unhealthy)", A.WAIT, "the service mends its cluster and restarts the job"),
    _status("live-spot", F.INTERRUPTED, r"^(?!Failed|Completed).*(?:\bInterrupted(?: Starting)*"
        r" \||[Ss]pot )",
        A.WAIT, "the service restarts the job when it has machines"),
    _status("live", F.UNKNOWN, r"^(?!Failed|Completed)", A.WAIT, "the job is alive"),

    # --- reason: the prefix before the first colon outranks every word behind it
    _reason("watcher-busy", F.THROTTLING, rf"(?:{c.BUSY}|{c.ILL})\b.*\[calling (?:Describe|List|Get"
        r"|Batch(?:Get|Describe)|Search|FilterLog|Stop)(?!Object)\w*\]", A.WAIT, _LOOK),
    _reason("watcher-unreachable", F.THROTTLING, r"\w*(?:Connection|Timeout)\w*Error\b.*(?://(?:lo"
        r"gs"
        r"|monitoring|events)\.|\b(?:describe|list|get_log)_\w+\()", A.WAIT, _LOOK),
    _reason("watcher-tired", F.UNKNOWN, r"WaiterError: .*Max attempts exceeded", A.WAIT, _LOOK),
    _reason("request-open", F.CAPACITY, r"(?:pending-(?:evaluation|fulfillment)|not-scheduled-yet)"
        r"\b", A.WAIT),
    _reason("storage-unreachable", F.STORAGE_TRANSIENT, r"(?:\w*(?:Connection|Timeout|SSL"
        r"|HTTPClient|Streaming|IncompleteRead|Checksum)\w*Error)\b.*(?:\bs3[.-]|amazonaws\.com/\S+"
        r"/)"),
    _reason("storage-busy", F.STORAGE_TRANSIENT, rf"(?:{c.BUSY}|{c.ILL})\b.*{c.OBJECT}"),
    _reason("storage-slow-down", F.STORAGE_TRANSIENT, r"SlowDown\b"),
    _reason("capacity", F.CAPACITY, rf"(?:{c.ROOM})\b|We currently do not have sufficient"
        r"|.*not enough (?:free )?(?:addresses|capacity)"),
    _reason("internal", F.INFRASTRUCTURE, r"InternalServerError\b", A.RETRY_SAME, "the service lost"
        " a host or a part of itself"),
    _reason("host-interrupted", F.INTERRUPTED, r"Server\.SpotInstance\w+|instance-(?:terminated|st"
        r"opped)-(?!by-user)|marked-for-\w+"),
    _reason("host-stopped", F.USER_STOP, r"Client\.UserInitiatedShutdown|instance-terminated-by-us"
        r"er|(?:request-)?cancel+ed-"),
    _reason("host-ended", F.INFRASTRUCTURE, r"Server\.(?:InternalError|ScheduledStop)|Client\.Inst"
        r"ance"
        r"InitiatedShutdown", A.RETRY_SAME, "EC2's own fault, or the host ended itself"),
    # What a 5xx says of AWS; a run of ours waits for it as for a busy one, without an attempt.
    _reason("api-broken", F.INFRASTRUCTURE, r"Internal(?:Failure|Error|Server\w*(?:Exception|Error"
        r"))\b|500"
        r"\b", A.RETRY_BACKOFF, "AWS's own fault", in_run=(F.THROTTLING, A.RETRY_BACKOFF)),
    _reason("api-trouble", F.THROTTLING, rf"(?:{c.BUSY}|{c.ILL})\b"),
    _reason("api-unreachable", F.THROTTLING, r"(?:(?:EndpointConnection|ConnectTimeout|ReadTimeout"
        r"|ConnectionClosed|HTTPClient|SSL|Proxy\w*|ResponseStreaming)Error|ConnectionError)\b"
        r"|Lambda\.\w+|Runtime\.ExitError|Sandbox\.Timedout|FormerJobRunning\b", hint="the control "
        "plane could not reach AWS, or had to wait"),
    _reason("not-in-region", F.BAD_CONFIG, r"(?:ResourceLimitExceeded|Unsupported\w*|InvalidParamet"
        r"er\w*|ValidationException):.*not (?:available|supported|offered) in (?:this|your"
        r"|the) (?:\w+ )?(?:region|[Zz]one)", hint="choose a type that the region offers"),
    _reason("limit-never", F.QUOTA, rf"ResourceLimitExceeded\b{p.LIMIT}", A.DO_NOT_RETRY,
        "asks for more than the whole limit: it needs an increase", test=p.never_fits),
    _reason("limit-zero", F.QUOTA, r"ResourceLimitExceeded\b.*\bis 0 [A-Za-z]", A.DO_NOT_RETRY),
    _reason("limit", F.QUOTA, r"ResourceLimitExceeded\b.*utilization", A.RETRY_BACKOFF),
    _reason("limit-account", F.QUOTA, r"ResourceLimitExceeded\b.*exceeded (?:the|your) (?:max|limi"
        r"t|number)",
        A.DO_NOT_RETRY),
    _reason("limit-plain", F.QUOTA, r"ResourceLimitExceeded\b"),
    _reason("limit-other", F.QUOTA, r"(?:Client\.)?(?:TooMany(?!Requests)\w+|\w+LimitExceeded\w*"
        r"|LimitExceeded\w*|\w*QuotaExceeded\w*"
        r"|MaxSpotInstanceCountExceeded|\w+CountExceeded|AddressLimitExceeded)\b", A.DO_NOT_RETRY),
    _reason("job-stuck", F.BAD_CONFIG, r"ResourceInUse\b", hint="a job of this name exists and is n"
        "ot ours: choose another run id"),
    _reason("client-quota", F.QUOTA, rf"ClientError:.*{w.near(w.QUOTA, w.SHORT)}", A.DO_NOT_RETRY),
    _reason("client-storage", F.STORAGE_TRANSIENT, rf"ClientError:.*(?:SlowDown|\(50\d\)|"
        rf"{c.HTTP_ILL}"
        r"|reduce your request rate)"),
    _reason("client-memory", F.OUT_OF_MEMORY_HOST, rf"ClientError:.*(?:{p.MEMORY})"),
    _reason("client-disk", F.BAD_CONFIG, rf"ClientError:.*(?:{p.FULL})", hint="raise compute.volume"
        "_gib"),
    _reason("client-data", F.BAD_DATA, r"ClientError:.*(?:(?i:blank line|header line|non-numeric|c"
        r"ontent-?type|recordio"
        r"|libsvm)|No S3 objects found|Unable to (?:parse"
        r"|read)|empty (?:channel|dataset|file)|manifest file|corrupt|does not (?:exist"
        r"|contain)(?=.*(?:channel|S3))|[Nn]o (?:such )?(?:key|files?|objects?) )"),
    _reason("client-config", F.BAD_CONFIG, r"ClientError:.*(?:caused by ValidationError"
        r"|(?i:validat\w* "
        r"(?:\w+ ){0,3}configuration|additional properties|hyper-?parameter))"),
    _reason("no-objects", F.BAD_DATA, r"ValidationException:.*No S3 objects found"),
    _reason("client", F.BAD_CONFIG, r"(?:Client\.)?(?:ClientError|InternalError: Client)\b",
        hint="the request itself is refused: image, role, data or command"),
    _reason("refused", F.BAD_CONFIG, rf"(?:{c.REFUSED})\b"),
    _reason("api-other", F.BAD_CONFIG, r"\w+: .*\[calling \w+\]", confidence=0.5),
    _reason("exit-killed", F.OUT_OF_MEMORY_HOST, r"AlgorithmError:.*[Ee]xit [Cc]ode:? 137\b",
        hint="killed from outside, mostly for memory", confidence=0.5, role=Role.SYMPTOM,
        in_run=(F.INFRASTRUCTURE, A.RETRY_SAME)),
    *EVENT_RULES,

    # --- log: causes
    _log("gpu-memory", F.OUT_OF_MEMORY_GPU, p.GPU_MEMORY),
    _log("memlock", F.BAD_CONFIG, r"(?i)memlock|(?:libfabric|\befa\b|\bib(?:v_\w+)?\b|mlx5|NET/).*"
        r"cannot allocate memory|(?:ibv_reg_mr|fi_mr_reg"
        r"|register memory)\w*\b.*(?:fail"
        r"|cannot)", hint="raise the container's limit of locked memory: ulimit -l"),
    _log("host-memory", F.OUT_OF_MEMORY_HOST, p.HOST_MEMORY),
    _log("file-quota-or-disk-full", F.BAD_CONFIG, p.FULL, hint="raise compute.volume_gib, or keep f"
        "ewer checkpoints"),
    _log("shared-memory", F.BAD_CONFIG, p.SHARED_MEMORY, hint="use fewer data loader workers:"
        " SageMaker fixes the size of /dev/shm"),
    _log("efa-rules", F.BAD_CONFIG, r"insert remote address into address vector|fi_av_insert",
        hint="the EFA security group must allow all traffic to itself, in and out"),
    _log("efa-setup", F.BAD_CONFIG, p.EFA_SETUP, hint="the image's EFA software does not fit, or"
        " the type has none"),
    _log("network-setup", F.BAD_CONFIG, r"Connect to 169\.254\.|no socket interface|No (?:socket )?"
        r"interface found|connectFullMesh failed|Duplicate GPU detected|[Aa]ddress already in use"
        r"|EADDRINUSE|[Mm]ismatched? NCCL version|unable to find address for|makeDeviceForInterface"
        r"|Unable to find interface|ncclInvalidUsage|ncclInvalidArgument", hint="NCCL_SOCKET_IFNAME"
        ", port or launcher"),
    _log("xid-none", F.UNKNOWN, rf"{c.XID}154\b.*to 0x\w+ \(None\)", A.WAIT, "the driver asks for n"
        "othing", 0.7),
    _log("sxid-not-fatal", F.UNKNOWN, r"\bSXid\b.*[Nn]on-?fatal", A.WAIT, "the switch recovered",
        0.7),
    _log("xid-program", F.USER_CODE, rf"{c.XID}(?:{c.XID_PROGRAM})\b", hint="the program itself mad"
        "e an illegal GPU access"),
    _log("xid-contained", F.INFRASTRUCTURE, rf"{c.XID}(?:{c.XID_CONTAINED})\b", A.RETRY_SAME),
    _log("xid-broken", F.INFRASTRUCTURE, rf"{c.XID}\d+\b|NVRM: Xid\b", hint="a GPU or its link is b"
        "roken"),
    _log("gpu-contained", F.INFRASTRUCTURE, r"over nvlink or a hardware error|(?i:cuda_?error_?con"
        r"tained"
        r")", A.RETRY_SAME, "the driver contained it: the host may stay"),
    _log("gpu-broken", F.INFRASTRUCTURE, p.GPU_BROKEN),
    _log("preempted", F.INTERRUPTED, p.PREEMPTED),
    _log("no-room", F.CAPACITY, p.NO_ROOM),
    _log("host-broken", F.INFRASTRUCTURE, p.HOST_BROKEN),
    _log("no-fault-found", F.UNKNOWN, r"ResumeAction=NONE", A.DO_NOT_RETRY, "no hardware fault",
        0.6),
    _log("nan", F.DIVERGED, p.NONFINITE),
    _log("time-limit", F.MAX_RUNTIME, p.TIME_LIMIT),
    _log("job-cancelled", F.USER_STOP, r"UserInitiatedShutdown|(?:killed|deleted|cancel+ed) (?:by"
        r"|at request of) (?:the )?(?:owner|user)\b|instance-terminated-by-user"
        r"|\bJOB \d+ ON \S+ CANCELLED AT \S+ (?:by|\*)|CANCELLED AT \S+ by (?:user|uid)|scancel"),
    _log("storage-mount", F.BAD_CONFIG, r"(?i)(?:failed|unable|could not|cannot) (?:to )?mount"
        r"|lustre.*\bMGS\b|mount(?:\.\w+)?: .*(?:failed|denied"
        r"|wrong|no such)|mounting \S+ failed"),
    _log("no-route-to-hub", F.BAD_CONFIG, r"(?i)(?:huggingface\.co|pypi\.org|github\.com|wandb\.ai"
        r"|docker\.io)\b.*(?:network is unreachable|no route|name resolution|name or service not k"
        r"nown"
        r")", hint="an isolated job, or a subnet without NAT", confidence=0.6,
        in_run=(F.STORAGE_TRANSIENT, A.RETRY_BACKOFF)),
    _log("offline", F.BAD_CONFIG, r"couldn't connect to 'https?://|offline mode|"
        r"LocalEntryNotFound"
        rf"|GatedRepo|RepositoryNotFound|RevisionNotFound|EntryNotFound|{c.HTTP_REFUSED}"
        r"|Invalid (?:user )?token|not a valid model identifier", hint="the job cannot reach or ma"
        "y not read the hub"),
    _log("hub-busy", F.THROTTLING, rf"{c.HTTP_BUSY}|Rate exceeded|ThrottlingException",
        hint="let one rank download, or put a copy into S3"),
    _log("storage", F.STORAGE_TRANSIENT, rf"{p.STORAGE}|{c.ERRNO_STORAGE}|{c.HTTP_ILL}"),
    _log("token-expired", F.BAD_CONFIG, r"ExpiredToken|token has expired|token included in the requ"
        r"est is exp", A.RETRY_SAME, "a new job gets new credentials; let the program refresh its o"
        "wn", 0.6),
    _log("slurm-held", F.UNKNOWN, r"\([^()]{0,80}\bheld\)|\(JobHeld\w+\)|JobHoldMaxRequeue", A.WAIT,
        "a person releases it: scontrol release"),
    _log("slurm-waits", F.CAPACITY, p.SLURM_WAITS, A.WAIT, QUEUED),
    _log("slurm-limit-waits", F.QUOTA, p.SLURM_LIMIT, A.WAIT, QUEUED),
    _log("vcpu-quota", F.QUOTA, r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded|\bQOS\w*Limit|\bv"
        r"CPU (?:capacity|limit)"
        r"|AssocGrp\w+|Job violates accounting/QOS|QOSMax\w+", A.DO_NOT_RETRY),
    _log("bad-data", F.BAD_DATA, p.CORRUPT),
    # Before what follows: it advises, whatever broke, to look at security groups.
    _victim("efa-peer", F.INFRASTRUCTURE, r"NET/(?:OFI|IB|Socket)\b.*(?:with (?:error|status)"
        r"|[Ee]rror\b|fail)|ibv_\w+ fail|\bERROR +(?:ENC|NRT|TDRV|NMGR|KMGR):|libfabric:.*(?:err:|"
        r"error|[Ff]ail)|\bIBV_WC_\w+ERR|(?:prov|EFA internal) error: \(?4\d{3}\b|[Uu]nresponsive "
        r"receiver"
        r"|handle_error\(\)", A.RETRY_SAME, "a peer went "
        "away first"),
    _log("mpi-start", F.BAD_CONFIG, r"unable to reliably start", confidence=0.6, in_run=_NOT_SURE),
    _log("launch", F.BAD_CONFIG, rf"{p.LAUNCH}|{c.CUDA_CONFIG}|{c.ERRNO_CONFIG}|{c.EXIT_START}"),
    _log("topology", F.UNKNOWN, r"\bgraph/\w+\.(?:h|cc):\d+ NCCL WARN", A.DO_NOT_RETRY,
        "NCCL could not read the machine's topology: /sys in the container", 0.6),
    _log("barrier-at-start", F.BAD_CONFIG, r"WorkNCCL\(SeqNum=\d, OpType=\w+, NumelIn=1,", None,
        "one rank prepares data for longer than the others wait", 0.6, Role.VICTIM,
        (F.COMMUNICATION_HANG, A.RETRY_SAME)),
    _log("zero-params", F.UNKNOWN, r"expects same model.*inconsistent 0 params", A.DO_NOT_RETRY, "",
        0.6),
    _log("assert", F.USER_CODE, r"device-side assert|instance of 'std::(?:out_of_range|invalid_arg"
        r"ument|logic_error|length_error)|panicked at|^panic: |Assertion [`'].*[`'] fai"
        rf"led|NRT_EXEC_(?:BAD_INPUT|OOB)|mismatch between collectives|{c.CUDA_MISUSE}"),
    _symptom("gpu-call", F.UNKNOWN, r"illegal memory access|Cuda failure|unspecified launch failure"
        r"|launch timed out|CUDA error(?: \d+)?:|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_\w+"
        r"|CUDA driver error|unhandled cuda error", A.RETRY_SAME, "a kernel's bug or a GPU's: repla"
        "ce the node if an Xid is logged"),
    _log("python-static", F.USER_CODE, r"^\s*(?:\[[\w ]+\]:?\s*)*(?:ModuleNotFound|Import|Syntax"
        r"|Indentation|Tab|Name)Error:", confidence=0.95),
    _log("python-setup", F.BAD_CONFIG, p.SETUP, confidence=0.6),
    _log("python-data", F.BAD_DATA, p.DATA, confidence=0.6),
    _log("python", F.USER_CODE, p.PYTHON, confidence=0.7, in_run=_DOUBT),
    _symptom("platform", F.INFRASTRUCTURE, r"InternalServerError: |Platform Error:", A.RETRY_SAME),
    _symptom("not-completed", F.UNKNOWN, r"ended with status 'Stopped'", A.DO_NOT_RETRY,
        "see its status"),
    _symptom("killed-rank", F.OUT_OF_MEMORY_HOST, rf"{c.EXIT_KILLED}|exited on signal 9\b|: Killed$"
        r"|: +\d+ Killed\b|^Killed$", in_run=(F.INFRASTRUCTURE, A.RETRY_SAME)),
    _symptom("crashed", F.UNKNOWN, rf"{c.EXIT_CRASH}|^(?!.*NCCL WARN).*{c.ERRNO_PASSING}"
        r"|(?i:segmentation fault|(?<!pcie )bus error|SIGSEGV|SIGBUS|SIGILL|SIGFPE|on signal (?:4"
        r"|7|8|11)\b"
        r"|\bsegfault at |killed by signal: (?:segm|ille|floa)|fatal python error|double free|abru"
        r"ptly died"
        r"|corrupted size|(?:free|alloc|munmap_chunk)\(\): )", A.RETRY_SAME),
    # Whatever aborts says why before: the watchdog of a collective, an assertion, an allocator.
    _symptom("aborted", F.UNKNOWN, rf"{c.EXIT_ABORT}|(?i:SIGABRT|on signal 6\b|signal: abort"
        r"|core dumped)", A.RETRY_SAME, role=Role.ECHO),
    _symptom("told-to-end", F.INTERRUPTED, rf"{c.EXIT_TERM}|(?i:death signal|got signal: 15"
        r"|TERM received|(?:received|caught|handling) (?:a )?(?:signal )?(?:SIGTERM|15\b)|\bexit(?"
        r":ed|ing)? (?:with )?143\b)", role=Role.VICTIM),

    # --- log: victims
    _victim("collective", F.COMMUNICATION_HANG, p.COLLECTIVE),
    _victim("killed", F.INFRASTRUCTURE, r"killed by SIG(?:KILL|TERM)|Signal (?:9|15) \(SIG",
        A.RETRY_SAME, "a process was killed from outside"),
    _victim("peer-gone", F.INFRASTRUCTURE, rf"{p.PEER}|{c.ERRNO_PEER}", A.RETRY_SAME, "a peer went "
        "away first"),
    _symptom("exit", F.UNKNOWN, rf"{c.EXIT_ANY}|closing signal SIGTERM|KeyboardInterrupt"
        rf"|: Terminated$|^\(?No reason (?:was )?(?:provided|given)|Terminating StepId"
        rf"|CANCELLED AT \S+ \*\*\*"
        r"|replica\(s\) failed", A.DO_NOT_RETRY, "the container says no more: read the log's end",
        role=Role.ECHO),
    _victim("peer-echo", F.INFRASTRUCTURE, r"DistBackendError|NCCL (?:WARN|error)|communicator was "
        r"aborted|nccl\w+Error|[Cc]onnection (?:error|failure)|[Tt]ime-?d? ?out", A.RETRY_SAME,
        "a peer went away first", confidence=0.4, role=Role.ECHO),

    # --- log: no form that is known, but a subject and what is wrong with it
    _sure("words:gpu-memory", F.OUT_OF_MEMORY_GPU, rf"{w.near(w.GPU_MEMORY, w.SHORT)}|(?i:\bgpu \d"
        rf"+ oom\b)"),
    _words("words:time", F.MAX_RUNTIME, w.near(w.TIME, w.PASSED, 30)),
    _sure("words:quota", F.QUOTA, w.near(w.QUOTA, w.SHORT), A.DO_NOT_RETRY),
    _words("words:memory", F.OUT_OF_MEMORY_HOST, w.near(w.MEMORY, rf"{w.SHORT}|kill|limit")),
    _sure("words:disk", F.BAD_CONFIG, w.near(w.DISK, w.SHORT, 30)),
    _sure("words:room", F.CAPACITY, w.near(w.ROOM, w.SHORT, 40)),
    _sure("words:nan", F.DIVERGED, w.near(w.NUMBERS, w.NONFINITE)),
    _words("words:setup", F.BAD_CONFIG, w.near(w.BUILT, rf"{w.ILL}|unsupported|unavailable|but you"
        rf" have|invalid", 50)),
    _words("words:gpu", F.INFRASTRUCTURE, w.near(w.GPU, w.FAULT, 40)),
    _sure("words:store-busy", F.STORAGE_TRANSIENT, w.near(w.STORE, w.BUSY)),
    _sure("words:busy", F.THROTTLING, rf"(?i){w.BUSY}"),
    _sure("words:stalled", F.COMMUNICATION_HANG, w.STALLED),
    _sure("words:collective", F.COMMUNICATION_HANG, w.near(w.COLLECTIVE, w.WAITED, 80)),
    _words("words:store", F.STORAGE_TRANSIENT, w.near(w.STORE, w.LOST)),
    _words("words:taken", F.INTERRUPTED, w.near(w.HELD, w.TAKEN)),
    _sure("words:network", F.INFRASTRUCTURE, w.near(w.NETWORK, w.LOST, 40), A.RETRY_SAME),
    _words("words:node", F.INFRASTRUCTURE, w.near(w.NODE, w.ILL)),
    _words("words:denied", F.BAD_CONFIG, rf"(?i){w.DENIED}"),
    _words("words:data", F.BAD_DATA, w.near(w.DATA, rf"{w.CORRUPT}|{w.ABSENT}", 40)),
    _words("words:checkpoint", F.BAD_DATA, w.near(w.CHECKPOINT, w.CORRUPT, 40)),
    _words("words:code", F.USER_CODE, w.near(w.CODE, w.WRONG, 40)),
    _words("words:config", F.BAD_CONFIG, rf"(?i){w.WRONG}|{w.ABSENT}"),
    _words("words:lost", F.INFRASTRUCTURE, rf"(?i){w.LOST}", A.RETRY_SAME),
)
# fmt: on
