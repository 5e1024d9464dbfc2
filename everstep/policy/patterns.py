"""Pieces of patterns that more than one rule uses, or that need a word of their own."""

from re import Match

from everstep.policy.codes import (
    CUDA_BROKEN,
    ERRNO_BROKEN,
    ERRNO_FULL,
    ERRNO_MEMORY,
    ERRNO_PASSING,
    MODULE_CONFIG,
    MODULE_DATA,
    MODULE_NETWORK,
)


def never_fits(match: Match[str]) -> bool:
    """More is asked for than the whole limit."""
    return float(match["asked"]) > float(match["limit"])


LIMIT = (
    r".*is (?P<limit>[\d.]+) [A-Za-z]\w+, with current utilization of [\d.]+ \w+ and a request del"
    r"ta "
    r"of (?P<asked>[\d.]+)"
)
FULL = (
    rf"{ERRNO_FULL}|[Ii]nsufficient (?:disk|storage) space|ENOSPC|[Dd]isk (?:is )?full"
    r"|[Nn]ot enough (?:free )?(?:disk )?space"
)
MEMORY = r"[Oo]ut [Oo]f [Mm]emory|more memory|OutOfMemory"
GPU_MEMORY = (
    r"(?:CUDA|HIP|NVML|cuda\w*)\b[^\n]{0,40}?\b[Oo]ut of memory|(?:torch\."
    r"|cuda\.)OutOfMemoryError|CUDA_?ERROR_?OUT_?OF_?MEMORY|cudaErrorMemoryAllocation"
    r"|[Ff]ailed to (?:CUDA )?(?:host )?(?:calloc|malloc)\b|Cuda failure (?:\d+ )?'out of memory'|"
    r"out_of_memory: CUDA|(?:CUBLAS|CUDNN"
    r"|CUSOLVER)_STATUS_ALLOC_FAILED|HIP out of memory|RESOURCE_EXHAUSTED: .*memory"
    r"|OOM when allocating.*GPU|hipErrorOutOfMemory|cupy\S*OutOfMemory|Failed to allocate .*HBM|NR"
    r"T_RESOURCE"
    r"|No available memory for the cache blocks"
    r"|RESOURCE_EXHAUSTED: .*(?i:alloc)|(?i:fail\w* to alloc\w* .{0,30}\b(?:device|hbm|gpu|cuda)\b)"
)
HOST_MEMORY = (
    r"oom[-_]kill|[Oo]ut of memory: Kill|OOM[- ]?Kill|task \d+: Out Of Memory"
    r"|step memory limit|[Mm]emory cgroup|(?<!OutOf)MemoryError|OutOfMemoryError(?!.*(?:CUDA"
    r"|GPU))|killed due to memory|std::bad_alloc|killed by signal"
    rf": Killed|OUT_OF_MEMORY|{ERRNO_MEMORY}|DefaultCPUAllocator: (?:can't|not enough)"
    r"|memory limit exceeded|low on memory|ray\.exceptions\.OutOfMemory|memory usage threshold"
)
NONFINITE = (
    r"(?i)found (?:nan|inf)|loss[^a-z]{0,3}(?:is|became|=|:)? ?(?:nan|inf)\b|nan (?:loss"
    r"|grad)|non-?finite|\b(?:loss|training) (?:has )?diverged|loss scale already at minimum"
    r"|returned nan|\bnan in\b|NRT_\w+NUM_ERR|\b(?:nan|inf) (?:or \w+ )?(?:found|detected"
    r"|encountered)|invalid values: .*\bnan\b|(?:loss|norm|grad\w*|logits|weights?) (?:is|are"
    r"|was|became) (?:nan|inf)|contains (?:either )?`?(?:nan|inf)\b|minimum loss scale reached|spi"
    r"ky loss"
)
NO_ROOM = (
    r"Insufficient\w*Capacity\w*|UnfulfillableCapacity|ReservationCapacityExceeded"
    r"|(?i:insufficient capacity|(?:out of|no|not have sufficient"
    r"|not enough) (?:[\w.]+ ){0,2}(?:addresses|capacity)|capacity (?:is |was )?(?:not "
    r"|un)available|unable to provision|failed to provision all)|not have sufficient"
    r"|Resources?Unavailable|RESOURCE_POOL_EXHAUSTED|STOCKOUT|AllocationFailed"
    r"|SkuNotAvailable|capacity-(?:not-available|oversubscribed)|price-too-low"
)
GPU_BROKEN = (
    r"(?i:uncorrectable (?:\w+ )?(?:ecc|nvlink)|ecc[_ ]?uncorrect|double[- ]bit"
    r"|fallen off the bus|GPU is lost|row[- ]?remap\w* fail|nvlink.*fatal)"
    r"|\bSXid\b(?!.*[Nn]on-?fatal)|device handle for GPU|Driver/library version mismatch"
    r"|XidHardware|NRT_(?:EXEC_)?(?:HW|UNIT)\w*|(?i:\b(?:gpus?|cuda devices|device_count\(\))[^\n]"
    r"{0,40}\bexpect\w*[ :=]+\d|(?:gpus?|cuda devices)\b[^\n]{0,30}\b\d+ expected)|\bNRT:nrt_init"
    r"\b.*[Ff]ail|\bERR!|nccl_?pre_?flight"
    r".*fail"
    r"|[Ff]abric ?[Mm]anager.*(?:fail|error)|(?i:dcgm\w*\b.*\bfail)|GPU requires reset"
    r"|No devices were found|initialize NVML|NVRM: .*(?i:fail|error|not resp|fallen|fell off"
    rf"|lost|cannot)|{CUDA_BROKEN}"
)
HOST_BROKEN = (
    r"(?i:status ?checks? ?failed)|Machine check|Hardware Error\]|I/O error, dev"
    rf"|{ERRNO_BROKEN}|soft lockup|self-detected stall|Kernel panic|EXT4-fs error"
    r"|reason set to: |state set to (?:FAIL|DOWN)|on failed node|[Nn]ode fail(?:ure|ed)?\b"
    r"|DUE TO NODE|not responding, setting DOWN|[Nn]odes? .{0,60}(?:not ready|unhealthy)"
    r"|boot of the node|unexpectedly rebooted|ResumeAction=RETRY|replacing nodes"
    r"|unhealthy nodes|lost communication with its daemon|NODE_FAIL|BOOT_FAIL"
    r"|[Hh]ealth[ _-]?check.{0,20}fail|severity=Uncorrected|AER: .*Uncorrected|EDAC .* UE "
    r"|critical (?:medium|target) error|Medium Error|Remounting filesystem read-only"
    r"|general protection fault|\bOops: |kernel: BUG: |unable to handle (?:page|kernel)"
    r"|Node condition \w+ is now: True|NodeNotReady"
)
EFA_SETUP = (
    r"(?:NET/OFI|aws-ofi-nccl|OFI plugin).*(?:[Nn]o eligible"
    r"|(?:initiali[sz]ation"
    r"|initiali[sz]e \w+(?: protocol)?) failed|[Ff]ailed to (?:init|find|open|load|create|get)"
    r"|(?:[Cc]reat|[Oo]pen|[Rr]egist|[Bb]ind|[Ee]nabl)ing .* failed|[Nn]o (?:provider|device)"
    r"|(?:[Cc]ould ?n[o']t|[Uu]nable to) |Only \w+ provider|not supported|OFI NCCL failure)"
    r"|fi_getinfo\S* .*No data|FORK_SAFE|Fork safety|memlock|fi_mr_reg\w*.*fail|efa.*not (?:fou"
    r"nd|supported)|(?i:no (?:valid )?(?:efa|ib|rdma|infiniband) (?:device|interface|adapter))"
    r"|TCP fallback"
)
COLLECTIVE = (
    r"[Cc]ollective operation timeout|NRT_TIMEOUT"
    r"|RendezvousTimeout|[Tt]imed out (?:waiting \d+ms|after \d+ ?(?:s|ms|seconds) waiting)"
    r"|monitoredBarrier|caught collective|detected by watchdog|watchdog got stuck"
    r"|[Hh]eartbeat monitor timed|data inconsistency|flight recorder dump|clients joined"
    r"|Some NCCL operations have failed|pair closure|(?i:collective|all_?reduce|all_?gather"
    r"|reduce_?scatter|all_?to_?all|barrier|broadcast)\b.{0,40}\b(?i:timed?[ -]?out|hang|hung"
    r"|stuck)|[Ww]ait timeout after|(?i:time-?d?[ -]?out|stuck|hung|hang"
    r"|desync\w*)\b.{0,200}?(?i:coll"
    r"ective|nccl work|all_?reduce|all_?gather|reduce_?scatter|barrier|broadcast)"
    r"|NCCL (?:watchdog )?(?:timeout|operation timed)|Rendezvous .*timed? ?out"
)
TIME_LIMIT = (
    r"DUE TO TIME LIMIT|(?i:wall-?(?:time|clock) .{0,20}exceed"
    r"|exceed\w* .{0,20}wall-?(?:time|clock))|exiting program (?:after|at) \w|(?i:time"
    r"|duration) limit (?i:was )?(?i:reac|exce)|^(?:\S+ +){2,6}TIMEOUT\b|JobState=TIMEOUT"
    r"|duration exceeded timeout|MaxRuntimeExceeded|exceeded MaxRuntime"
)
SHARED_MEMORY = (
    r"(?i:out of shared memory|shared memory limit|\bshm\b"
    r"|/dev/shm|\bworker\b.{0,60}\bbus error|insufficient shared memory|torch_shm"
    r"|unable to (?:open|mmap"
    r"|resize) shared mem)"
)
PREEMPTED = (
    r"DUE TO (?:PREEMPTION|JOB REQUEUE)|(?:is|was|been"
    r"|being) preempted|\bPREEMPTED\b"
    r"|Server\.SpotInstance\w+|instance-terminated-(?:by|no|cap)[\w-]+|marked-for-termination"
    r"|Preempted\w*(?:Error|Exception)|Spot (?:Instance )?[Ii]nterruption|\bITN\b|end of (?:the |a"
    r" )?Capacity Block|[Rr]eservation"
    r" (?:has )?(?:ended|expired)|spot instance (?:was |is )?(?:being )?(?:reclaim"
    r"|terminat|interrupt)|[Ii]nstance-action.*terminate"
)
SLURM_WAITS = (
    r"\((?:Resources|Nodes required [^)]*|Priority|ReqNodeNotAvail\b.*|BeginTime|License"
    r"s)\)"
)
SLURM_LIMIT = r"\((?:QOS|Assoc)\w+\)|\bPENDING\b.*\b(?:QOS|Assoc)\w+"
LAUNCH = (
    r"Host key verif|\(publickey|start new thread|pthread_create|blas_thread_init"
    r"|not defined in file|"
    r"(?i:\bpip3?\b.{0,80}\b(?:install|subprocess|error)\b|failed building wheel"
    r"|subprocess-exited-w"
    r"ith-error|no matching distribution|find a version that satisfies)|"
    r"\$'\\r'|unexpected token `|command not found|exec format error|executable file not found"
    r"|error: (?:the following arguments|unrecognized arg|argument |ambiguous option|invalid choic"
    r"e)"
    r"|environment variable \w+ expected, but not|can't open file '|not divisible by"
    r"|must be divisible|sagemaker-uploading|Lifecycle scripts|configuration is not available"
    r"|no instance types? (?:which )?(?:had|has|met|satisf)|unable to open shared object"
    r"|cannot open shared object|undefined symbol|version `GLIBC|ConfigError|ValidationError\b"
    r"|/opt/ml/input/config|No such option|Missing option|is not a valid .*(?:config|option)"
    r"|execve\(\)|Batch job submission failed|Unable to (?:create step|allocate resources)"
    r"|[Ss]ecurity groups? .*(?:configur|allow|rule)|route table|ulimit|HFValidation|seccomp"
    rf"|{MODULE_CONFIG}"
    r"|(?i:unknown (?:config\w*|argument|parameter|setting|flag)|config\w* (?:key|option|value|err"
    r"or)|(?:library|cuda|cudnn|driver|nccl) version mismatch"
    r"|seems to be not installed|must (?:evenly )?divide|api_key not|device < num_gpus)"
    r"|UnsupportedConfig|incompatible (?:version|with)|ConfigAttribute|MissingMandatory|Hydra\w*Exc"
    r"|Failed to import|requires? (?:the )?\S+ (?:library|package)|is not installed|only supports?"
    r" \S+ (?:GPU|device|arch)|compute capability"
    r"|CannotPull\w+|ErrImage|ImagePull|pull access denied|manifest unknown|no basic auth cred|cou"
    r"ld not select device driver|Error response from daemon|OCI runtime"
    r"|PERMISSION_DENIED|UNAUTHENTICATED|[Mm]isconfigur\w*|(?:^|[ .])\w*Config\w*(?:Error|Exceptio"
    r"n):|failed to exec\w*: |container start failed|NET/\w+ ?: No device|NCCL"
    r" (?:[Ee]rror|error in).*invalid (?:usage|argument)\b|\((?:BadConstraints|Partition\w+Limit|D"
    r"ependencyNeverSatisfied)\)"
    r"|Error building extension|different CUDA (?:major )?versions|ConfigKeyError|Install(?:Module"
    r"|Requirements)Error|s(?:batch|alloc"
    r"|run): error: .*[Ii]nvalid|NeuronCore\(s\) not available|InvalidVersion|"
    r"Interpolation\w*Error|unrecognized arguments|[Uu]nknown option"
)
STORAGE = (
    r"\bSlowDown\b|SLOW_DOWN|reduce your request rate|LustreError|LNetError|Lustre: .*was lost"
    r"|[Tt]ransport endpoint|AWS_(?:ERROR|IO)_(?:HTTP|S3|SOCKET|TLS|DNS|\w*TIMEOUT)\w*"
    r"|AWS Error (?:NETWORK|INTERNAL|SERVICE|REQUEST_TIME|UNKNOWN)\w*|Incomplete(?:Read|Body)"
    r"|ResponseStreamingError|(?:Read|Connect) ?[Tt]imeout on endpoint|Could not connect to the end"
    r"point|curlCode: \d+|S3Exception.*(?:50\d|[Tt]imeout|reset)|HTTPSConnectionPool.*(?:[Rr]ead "
    r"timed|Max retries)|(?i:curl (?:returned )?error)|response from endpoint URL|(?:\b(?i:s3|gs|g"
    r"cs|fsx|efs|nfs|hdfs|weka|object store|blob)\b|amazona"
    r"ws\.com).{0,300}?(?i:timed out|timeout|reset by|closed|unavailable|throttl|broken pipe)"
    r"|\b(?:azure|google\.\w+|gcsfs|adlfs|s3fs|fsspec|s3transfer|smart_open)\.[\w.]+(?:Error|Excep"
    r"tion|Closed)\b.*(?i:abort|reset|closed|timed?|50[0234]|unavail|complete)"
    r"|RequestT"
    r"imeout"
    r"|TemporaryFailure|RetriesExceeded|ServiceUnavailable|GatewayTimeout|BadGateway|IORetry|(?i:o"
    r"sc|mdc|lnet)-?\w*: .*timed|nfs: server \S+ (?:not responding"
    r"|timed out)|FSTimeoutError|(?:Client)?PayloadError|ServerDisconnected\w*|ChunkedEncodingError"
    r"|ProtocolError|FlexibleChecksumError|NotEnoughData|ContentLengthError|stale (?:NFS )?file ha"
    r"nd"
    r"|(?i:(?:timed out|reset by peer|broken pipe|unreachable)\b.{0,20}'/(?:fsx|efs|lustre|mnt"
    r"|scratch|data|opt/ml/input)\b)|(?i:mountpoint[-_]s3\S*.*(?:fail|closed|terminat))"
    r"|Timer expired|\bI/?O [Ee]rror\b|(?i:service error)|ptlrpc\w*|evicted by|mountpoint-s3.*error"
    r"|fuse:.*(?:I/O|abort)"
)
PEER = (
    rf"{MODULE_NETWORK}|failed on (?:node|host)\b|"
    r"(?i:\b(?:actor|worker|node|host|peer|rank|server|agent|daemon|raylet|executor)s?\b[\w .:()-]"
    r"{0,40}?"
    r"\b(?:died|dead|crashed|was lost|went away|disappeared|unreachable|timed out|stopped respondi"
    r"ng))|"
    r"(?i:connection (?:was )?(?:closed|reset|refused|timed out|aborted|lost|was|to \S+ (?:was )?l"
    r"ost"
    r"|broken|dropped|terminated)|lost connection|disconnected)|Dist(?:Network|Store)Error"
    r"|remote process exited|client socket has (?:timed out|failed)|Rendezvous\w*Error"
    r"|recvV\w+ failed|failed to recv|connection abort|socket\w*(?:Progress|Connect|Poll)"
    r"|TCPStore.*(?:shut down|fail)|name resolution|Name or service not known|nodename nor servnam"
    r"e|ssh exited with exit code 255"
    r"|Temporary failure in name|Could not resolve host|getaddrinfo|Unable to contact slurm"
    r"|[Uu]nreachable|[Ss]ocket ?(?:Timeout|[Tt]imed|error|closed)|RayActorError|ActorDied"
    r"|ActorUnavailable|WorkerCrashed|NodeDied|worker died|unhandled system error"
    r"|\b(?:UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED): |Host EC2 .*terminated|nccl(?:System"
    r"|Remote|Internal)Error|StatusCode\.UNAVAILABLE|Broken ?Pipe|EOFError: Ran out"
    r"|(?i:node (?:was |has )?(?:lost|failed|died)|lost (?:contact|communication)|heartbeat (?:lost"
    r"|missed|expired|timed))"
)
CORRUPT = (
    rf"{MODULE_DATA}|(?i:\b(?:dataset|shard|parquet|corpus|tfrecord|sample)s?\b.{{0,60}}\b(?:is em"
    rf"pty|corrupt|u"
    r"nreadable|truncated)|\b(?:cast|pars|decod)\w*\b.{{0,80}}\b(?:parquet|shard|csv|jsonl?|arrow|"
    r"tfrecord))|"
    r"(?:truncated|foreign|missing) shard|HeaderTooLarge|(?:Invalid|Incomplete)(?:Header"
    r"|Metadata)\w*"
    r"|PytorchStreamReader failed|central directory|magic (?:bytes|number)|ArrowInvalid"
    r"|JSONDecodeError"
    r"|UnicodeDecodeError|BadZipFile|BadGzipFile|UnidentifiedImageError|UnpicklingError|zlib\.error"
    r"|Compressed file ended|corrupt(?:ed)? (?:record|file|image|shard|data)"
    r"|DatasetGeneration\w*Error"
    r"|EmptyDatasetError|num_samples=0|Could not find response key|CastError|[Cc]ouldn't cast|Data"
    r"FilesNotFoundError"
    r"|(?:[Nn]o such|[Nn]ot ?[Ff]ound|find any|missing).*/opt/ml/input/data|checksum mismatch|[Nn]"
    r"o such file(?!.*/config/).*\.(?:pt|pth|ckpt|safetensors|bin|idx|parquet|jsonl?|tar|arrow|csv"
    r"|npy|mds)'"
    r"|Error tokenizing data|(?:r"
    r"ecord"
    r"|file) is corrupt|Unable to load weights|unexpected EOF"
    r"|[Uu]nexpected end of (?:file|data)|truncated (?:file|archive|stream|image)|ModelProto"
    r"|(?:file|archive|stream) (?:is )?truncated"
)
LOUD = (
    r"(?:Task|Actor|Worker|Remote|Child|Process|Job|Step|Execution|Checkpoint|Retry|Trai"
    r"ner"
    r"|Training)(?:Group)?(?:Error|Exception|Failed)(?=:|\(\w|\s*$)|"
    r"ChildFailed|Dist(?:Backend|Network|Store)|ProcessGroup|[Cc]onnection|[Bb]roken ?[Pp]ipe"
    r"|[Tt]ime-?d? ?out|Rendezvous|ExecuteUserScript|AlgorithmError|closed by|reset by|unreachable"
    rf"|{ERRNO_PASSING}|{MODULE_NETWORK}|RateLimit|SignalException|monitoredBarrier|gloo/transport"
    rf"|recvValue|was aborted|more than 1EB memory"
    r"|NCCL|unhandled (?:system|cuda) error|UNAVAILABLE: |DEADLINE_EXCEEDED: |ABORTED: |CANCELLED:"
    r" |An error occurred \(|exited unexpectedly|abruptly died|CalledProcessError|KeyboardInterrupt"
    r"|Socket|killed by signal"
    r"|CUDA error:|UnexpectedStatus|Error for \w+ job|StoreError|No route|RayActorError|ActorDied"
    r"|WorkerCrashed|NodeDied|SystemExit: (?:0|143|130)\b|ProcessExited|ProcessRaised|BrokenProcess"
)
PYTHON = (
    rf"^(?!.*(?:{LOUD}))(?:[\d:,.TZ+ -]{{8,40}})?\s{{0,16}}(?:\[[\w ]{{1,40}}\]:?\s{{0,4}}){{0,6}}"
    r"(?:ErrorMessage \"{1,2})?(?:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Iteration|Interrupt)"
    r"|(?:[a-z_]\w*\.)+[A-Z]\w+)(?::|\s{0,16}$)"
    r"|\b(?:Uncaught|Unhandled) (?:exception )?(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b"
    r"|\b[Uu]n(?:caught|handled) exception\b"
)
"""The last line of a traceback, behind torch's ``[rank3]:`` too; but no victim's exception."""
SETUP = (
    rf"^(?!.*(?:{LOUD}))(?=.*?(?:Error|Exception|Exit): ).*?"
    r"(?i:environment variable|\byour (?:setup|system|machine|hardware|gpu"
    r"|platform|install|region|credential)|\b(?:Ampere|Hopper|Volta|Turing|Blackwell|sm_?\d\d)\b"
    r"|compute capab|device.count|processes|\bnum_gpus|\bnproc|number of (?:gpus|nodes|processes"
    r"|devices)"
    r"|world[ _]?size|\b(?:tensor|pipeline|data|expert|context"
    r"|sequence)[ _-](?:model[ _-])?parallel"
    r"|divisib|\baws (?:config|cred|region)|\bdriver|CUDA_HOME|\bnvcc\b|(?:pip|conda) install"
    r"|KeyError: '(?-i:(?!SM_)[A-Z][A-Z0-9]*_[A-Z0-9_]+)'|\bgated\b"
    r"|\bapi key\b|authenticat|\b(?-i:[A-Z]{2,}(?:_[A-Z]+){2,})\b.{0,20}(?:should|must|is) (?:be )"
    r"?(?:not )?set|invalid device|unrecognized model|unknown (?:optimizer|scheduler|activation|ba"
    r"ckend|strategy|precision|model|dataset|attention)|is required to"
    r"|not installed|config(?:uration)? (?:file|key|option)|\byaml\b|not (?:a )?valid (?:mode"
    r"|choice"
    r"|option)|\bbf16|\b(?:cuda|torch|nccl|cudnn) versions?\b|flash.?att\w+ (?:only|requires"
    r"|is not))"
)
"""An exception whose words are of the machine and its settings, not of the program."""
DATA = (
    rf"^(?!.*(?:{LOUD}))(?=.*?(?:Error|Exception|Exit): ).*?"
    r"(?i:\bindex file|\.idx\b|\bmmap length|\bconsistency check|\bdocument sizes|file should be"
    r"|\bdata files\b"
    r"|\b(?:data ?set|shard|corpus|manifest|jsonl|parquet|csv|tokenized \w+|training file"
    r"|tokenizer|column)s?\b"
    r".{0,60}\b(?:is|are|has|have|does|do|was|not|no|empty|missing|invalid|mismatch|corrupt)\b"
    r"|\b(?:read|pars|load|decod|tokeniz)\w*\b.{0,40}\.(?:jsonl?|csv|parquet|tar|arrow|mds)\b|\bof"
    r" data ?set\b|\bno (?:\w+ )?(?:examples|samples|records)\b|\bfor size 0\b|\btoken ids?\b.{0,3"
    r"0}\bvocab|corrupt|load image)"
)
"""An exception whose words are of files of samples."""
