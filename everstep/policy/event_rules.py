"""The table's rows for events: Kubernetes, EventBridge, AWS Health, HyperPod. Data only.

See ``rules``. Matched against the ``key=value`` pairs of a parsed event, and its text.
"""

from functools import partial

from everstep.contracts.failures import Action, FailureClass
from everstep.policy import codes as c
from everstep.policy import words as w
from everstep.policy.patterns import never_fits
from everstep.policy.rule import Rule, Source

F, A = FailureClass, Action

_event = partial(Rule, Source.EVENT)
QUEUED = "the queue starts it by itself"

# fmt: off
EVENT_RULES: tuple[Rule, ...] = (
    _event("spot-notice", F.INTERRUPTED, r"detail-type=EC2 (?:Spot Instance|Capacity Reservation I"
        r"nstance) Interruption|detail-type=EC2 Instance-terminate"),
    _event("rebalance", F.INTERRUPTED, r"detail-type=EC2 Instance Rebalance", A.WAIT, "still runs"),
    _event("capacity-block", F.INTERRUPTED, r"detail-type=(?:EC2 )?Capacity (?:Block|Reservation)"
        r"\w*.*(?:Exp"
        r"ir|Interrupt|ending)", A.WAIT, "the reservation ends soon"),
    _event("instance-ended", F.INFRASTRUCTURE, r"detail-type=EC2 Instance State-change.*\bstate=(?:"
        r"shutting-down|terminated|stopp)", hint="a host was ended"),
    _event("health-planned", F.INFRASTRUCTURE, r"eventTypeCategory=(?:scheduledChange|accountNot)",
        A.WAIT, "nothing has failed yet"),
    _event("health-closed", F.INFRASTRUCTURE, r"detail-type=AWS Health.*statusCode=closed", A.WAIT),
    _event("health", F.INFRASTRUCTURE, r"detail-type=AWS Health.*eventTypeCategory=issue"),
    _event("node-unhealthy", F.INFRASTRUCTURE, r"HealthStatus=(?:Unhealthy|Unschedulable\w*)"
        r"|node-health-status[=:] ?UnschedulablePending|RepairAction=(?:Replace|Reboot)"),
    _event("node-healthy", F.UNKNOWN, r"HealthStatus=(?:Healthy|Schedulable)\b|node-health-status[="
        r":] ?Schedulable\b", A.WAIT),
    _event("cluster-mends", F.INFRASTRUCTURE, r"EventLevel=(?:Info|Warn).*(?:(?i:replac|reboot"
        r"|unhealthy|fault))", A.WAIT, "the cluster mends itself"),
    _event("not-an-error", F.UNKNOWN, r"EventLevel=(?:Info|Warn)", A.WAIT, "a cluster at work"),
    _event("cluster-capacity", F.CAPACITY, r"(?i)(?:sufficient capacity|insufficient\w* (?:instance"
        r" )?capacity|capacity errors?\b|InsufficientInstanceCapacity|UnfulfillableCapacity"
        r"|NoCapacity\b)"),
    _event("cluster-room", F.CAPACITY, rf"EventLevel=Error.*{w.near(w.ROOM, w.SHORT, 40)}"),
    _event("cluster-script", F.BAD_CONFIG, r"(?i)lifecycle (?:config|script)\w*.*(?:fail|not run)"),
    _event("cluster-config", F.BAD_CONFIG, r"EventLevel=Error.*(?i:configuration|custom ami|\beni\b"
        r"|payload|permission|role|subnet|security ?group|drift|validation|CapacityReservationDetai"
        r"ls)"),
    _event("cluster-error", F.INFRASTRUCTURE, r"EventLevel=Error|(?:Cluster)?Status=Failed(?=.*Hype"
        r"rPod)|HyperPod.*Status=Failed"),
    _event("oom-killed", F.OUT_OF_MEMORY_HOST, r"OOMKill|OutOfMemoryError: Container|low on resour"
        r"ce: memory|SystemOOM"
        r"|condition: \[MemoryP"),
    _event("disk-evicted", F.BAD_CONFIG, r"low on resource: ephemeral-storage|ephemeral.{0,20}stora"
        r"ge.*exceed|[Uu]sage of EmptyDir|condition: \[DiskP", hint="the pod wrote more than its di"
        "sk holds"),
    _event("batch-queued", F.CAPACITY, r"detail-type=Batch Job.*\bstatus=(?:SUBMITTED|PENDING|RUNN"
        r"ABL"
        r"E)", A.WAIT, QUEUED),
    _event("batch-runs", F.UNKNOWN, r"detail-type=Batch Job.*\bstatus=(?:STARTING|RUNNING)",
        A.WAIT),
    _event("deactivated", F.USER_STOP, r"reason=(?:\w+DueTo|Inactive)?Deactivat\w*|workload is dea"
        r"ctivated"),
    _event("node-failed-requeued", F.INFRASTRUCTURE, r"reason=NodeFailures?\b"
        r"|replacement for a failed"
        r" node", A.WAIT, QUEUED),
    _event("preempted-requeued", F.INTERRUPTED, r"(?:Preempted to accommodate|EvictedDueToPreempt"
        r"|EvictedByPreemption|reason=(?:Preempted|InCohortReclamation|InClusterQueue))", A.WAIT,
        QUEUED),
    _event("queue-never", F.QUOTA, r"> maximum capacity|exceeds? (?:maximum|nominal) ",
        A.DO_NOT_RETRY),
    _event("queue-config", F.BAD_CONFIG, r"(?:Inadmissible|QuotaReserved).*(?:doesn't exist"
        r"|not found)|(?:doesn't exist|not found).*(?:Inadmissible|QuotaReserved)"
        r"|couldn't assign flavors(?!.*(?:insufficient|borrowing"
        r"|quota for)).*(?:untolerated taint|doesn't match|not match)"),
    _event("queued", F.QUOTA, r"couldn't assign flavors|unused quota|borrowing limit|QuotaReserved("
        r"?=.*(?:False|Pending|exceeded))|waiting for quota", A.WAIT, QUEUED),
    _event("quota-never", F.QUOTA, r"exceeded quota.*requested: [\w./-]+=(?P<asked>\d+)\b.*limited:"
        r" [\w./-]+=(?P<limit>\d+)\b", A.DO_NOT_RETRY, test=never_fits),
    _event("quota-used", F.QUOTA, r"exceeded quota", A.RETRY_BACKOFF),
    _event("pods-not-ready", F.CAPACITY, r"PodsReady ?[Tt]imeout", A.WAIT, "the queue tries again"),
    _event("taint-passes", F.INFRASTRUCTURE, r"untolerated taint \{[^}]*(?i:health|not-ready"
        r"|unreacha"
        r"ble|unschedulable|pressure|uninit|unavailable|disrupt|startup)", A.WAIT, "the node is"
        " being "
        "mended or has not joined yet"),
    _event("unschedulable-ever", F.BAD_CONFIG, r"^(?!.*Insufficient (?!pods)).*(?:didn't (?:match"
        r"|satisfy) (?:plugin|Pod's node affinity|node selector)|untolerated taint|no instance type"
        r" (?:which )?(?:had|has|met|satisf)|incompatible with (?:nodepool|requirements)"
        r"|persistentvolumeclaim \"\S+\" not found|unbound immediate)"),
    _event("unschedulable", F.CAPACITY, r"FailedScheduling|exceed limits for nodepool|Failed ?Scal"
        r"eUp|(?i:\bgang\b.*unschedul"
        r"|unschedul.*\bgang\b)|Insufficient (?:nvidia|vpc|aws|memory"
        r"|cpu|smar)|NotTriggerScaleUp|Unschedulable", A.WAIT, "the pod waits for a node"),
    _event("network-not-ready", F.INFRASTRUCTURE, r"FailedCreatePodSandBox|NetworkNotReady"
        r"|SandboxChanged|Job \S+ is restarting", A.WAIT, "kubelet tries again by itself"),
    _event("no-end", F.UNKNOWN, r"[Pp]robe (?:failed|errored|warning)|Job \S+ is (?:running|created"
        r"|suspended)|NodeHas(?:Sufficient|No)\w+", A.WAIT, "an event only"),
    _event("not-disrupted", F.UNKNOWN, r"Cannot disrupt (?:Node|Pod)", A.WAIT),
    _event("node-deleted", F.INFRASTRUCTURE, r"DeletionByPodGC|node no longer exists"),
    _event("pod-preempted", F.INTERRUPTED, r"Preempt|DisruptionTarget|[Dd]isrupt(?:ing|ed|ion)"
        r"|SpotInterrupt|node shutdown|NodeShutdown|TerminationByKubelet|DeletionByTaintManager"
        r"|TaintManagerEviction|Evicted by|reason=\w+Evicted|workers are evicted|Draining"),
    _event("rpc-passes", F.INFRASTRUCTURE, r"^(?!.*(?i:pull)).*(?:code = DeadlineExceeded"
        r"|context dea"
        r"dline exceeded)", A.WAIT, "kubelet tries again by itself"),
    _event("deadline", F.MAX_RUNTIME, r"DeadlineExceeded|Maximum\w*TimeExceeded|longer than specif"
        r"ied deadline"),
    _event("gpu-warning", F.UNKNOWN, rf"NvidiaXID(?:{c.XID_PROGRAM}|{c.XID_CONTAINED})Warning"
        r"|XID\d+Warning", A.WAIT, "an event only"),
    _event("gpu-gone", F.INFRASTRUCTURE, r"Allocate failed|no healthy devices|unhealthy devices"
        r"|NvidiaXID\d+Error"
        r"|UnexpectedAdmissionError|Xid(?:Hardware|Critical)|Neuron\w*(?:Error|Fail|Unhealthy)"
        r"|NvidiaError|Nvidia(?:Double|NVLink|DCGM)\w*|OutOf(?:nvidia|cpu|memory|pods)"
        r"|EFAErrorMetric|GpuUnhealthy"),
    _event("node-fatal", F.INFRASTRUCTURE, r"[Ss]everity=(?:Fatal|FATAL)|type=(?!\w*Ready\b)\w*(?:X"
        r"id|G[Pp][Uu]|Nvidia|Kernel|Frequent|Corrupt|Readonly|Hardware|Unavailable)\w* status=True"
        r""),
    _event("node-good", F.UNKNOWN, r"type=(?:\w*Ready) status=True|status=True type=\w*Ready\b"
        r"|NodeReady|type=(?:\w*Pressure|NetworkUnavailable) status=False", A.WAIT),
    _event("node-bad", F.INFRASTRUCTURE, r"(?i:not ?ready state|NodeNotReady"
        r"|node .{0,200}?not ready)"
        r"|NodeLost|NodeStatusUnknown|KubeletNotReady|Kubelet (?:stopped|never) post"
        r"|type=\w*Ready status=(?:False|Unknown)|KernelDeadlock|ReadonlyFilesystem|node (?:is )?no"
        r"t ready|NodeHasDiskError|RebootRequired"),
    _event("image-busy", F.THROTTLING, r"(?i)pull.{0,300}?(?:toomanyrequests|rate exceeded"
        r"|i/o timeout|QPS|429"
        r"|50[023])", A.WAIT, "kubelet pulls again by itself"),
    _event("image-passes", F.INFRASTRUCTURE, r"(?i)pull.{0,400}?(?:timeout|timed out|reset by peer"
        r"|refused|"
        r"\beof\b|deadline|cancell?ed|unavailable|name resolution|unreachable)", A.WAIT, "kubelet "
        "pulls again"
        " by itself"),
    _event("pod-config", F.BAD_CONFIG, r"ErrImage|ImagePullBackOff|InvalidImageName|invalid referen"
        r"ce format|Failed to pull image|CreateContainer(?:Config)?Error|RunContainerError"
        r"|[Ff]ailed to create \w* ?container|ContainerCannotRun|StartError|FailedMount"
        r"|Unable to (?:attach or )?mount|FailedAttachVolume|FailedCreate\b|is forbidden"
        r"|executable file not found|Init:Error|(?:configmap|secret|serviceaccount) \"?\S+\"? not f"
        r"ound|exit ?code=(?:126|127|128)\b"),
    _event("batch-config", F.BAD_CONFIG, r"Cannot(?:Start|Pull|Create|Inspect)Container|CannotPull"
        r"\w+"
        r"|ContainerRuntime(?:Timeout)?Error|ResourceInitializationError|InspectFailed"
        r"|couldn't (?:parse image|find key)"),
    _event("pod-killed", F.INFRASTRUCTURE, r"(?i)exit ?code=137\b", A.RETRY_SAME, "killed, and not "
        "for memory: that has a reason of its own", 0.6),
    _event("pod-terminated", F.INTERRUPTED, r"(?i)exit ?code=143\b", confidence=0.6),
    _event("pod-crashed", F.UNKNOWN, r"(?i)exit ?code=(?:13[24569]|-6|-7|-11)\b", A.RETRY_SAME, "",
        0.5),
    _event("pod-failed", F.UNKNOWN, r"(?i)exit ?code=[1-9]|BackoffLimitExceeded|CrashLoopBackOff"
        r"|restarting failed|phase=Failed|type=Failed status=True|reason=Error\b", A.DO_NOT_RETRY,
        "read the pod's log", 0.5),
)
# fmt: on
