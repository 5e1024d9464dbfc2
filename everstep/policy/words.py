"""What a message that has no known form says: a subject, and what is wrong with it.

A form is one program's sentence; a subject and a symptom are what everyone's sentences are made of.
Small letters: matched without regard to case. ``near`` joins the two where they stand together.
"""

REACH = 60
"""Characters between a subject and its symptom: about a clause."""


def near(subject: str, symptom: str, reach: int = REACH) -> str:
    """Both, in either order, with no more than ``reach`` characters of one clause between them."""
    gap = rf"[^\n;]{{0,{reach}}}?"
    return rf"(?i:(?:{subject}){gap}(?:{symptom})|(?:{symptom}){gap}(?:{subject}))"


# --- what is wrong
SHORT = (
    r"\breached (?:your|the|its)\b|\binsufficient|\bnot (?:have )?(?:enough|sufficient)"
    r"|\bout of\b|exhaust|\bran out|\brun out"
    r"|\bno (?:free|available|more|remaining)|(?:cannot|can't|unable to|failed to|could not"
    r"|couldn't"
    r") (?:be )?(?:m?alloc|allocate|reserve|provision|obtain|fulfil)|\bexceed|\bover (?:the )?limit"
    r"|\bfull\b|\btoo (?:large|big)|\blimit (?:was )?reached|\blacks?\b|\bunavailable|not available"
    r"|\bshortage|no longer available|\boversubscribed"
)
LOST = (
    r"\breset\b|\brefused|\bclosed\b|unreachable|\btime[sd]?[ -]?out|\btiming out|\baborted"
    r"|\blost\b"
    r"|\bdisconnect|failed to (?:send a keep-alive )?heartbeat|\bnot (?:be )?(?:respond|reach|answ"
    r"er)|unrespons|\bunavailable|\bbroken\b"
    r"|\bdropped|\bhung\b|\bgone\b|\bwent away|(?:cannot|can't|unable to|fail(?:ed|s)? to|could not"
    r"|couldn't|failure to) (?:reliably )?(?:re)?(?:connect|contact|reach|communicate|resolve|open"
    r" a? ?(?:conn"
    r"|socket)|establish)|\bdied\b|\bdead\b|disappeared|\bstale\b|\binterrupted\b|\bno route"
    r"|temporar|\bno response|\bterminated\b|\bunexpectedly|retries exceeded|\brequest failed"
    r"|\bvanished|\bnot (?:been )?heard from|\bstalled|\bsilent for|\bdropping|\bno heartbeat"
    r"|miss(?:ed|ing) heartbeat|(?:heartbeat|lease|quorum|keep-?alive)\w*[^\n]{0,30}(?:expired|mis"
    r"sing)|(?:cannot|can't|unable to|fail(?:ed|s)? to|could not) (?:\w+ ){0,2}(?:comp"
    r"lete"
    r"|start|launch|spawn|join|talk)"
)
BUSY = (
    r"throttl|\brate[ _-]?(?:limit|exceed)|too many (?:concurrent )?(?:requests|connections|calls)"
    r"|(?<!thermal )slow ?_?down|\btoo busy|\bbusy\b|overload|back-?pressure|request rate|\b429\b"
    r"|\bretry later"
    r"|\btry (?:your request )?again(?: later| shortly|\.? *(?:\[calling|$))|\bcongest"
)
DENIED = (
    r"\bdenied|forbidden|unauthori[sz]ed|\bnot (?:been )?(?:authori[sz]ed|permitted|allowed)|\bno p"
    r"ermission|permission|\b40[13]\b|(?:token|credential|certificate|session|signature|\bkey)\w*["
    r"^\n]{0,30}\bexpired|credentials?\b|\blacks? (?:access|the)|\binvalid (?"
    r":\w+ )?(?:token|key|password)|\bunauthenticated|\bgated\b|\bprivate\b"
)
ABSENT = (
    r"\bno (?:entries|records|samples|rows|data|files|objects|keys?)\b|\bnot (?:be )?(?:found"
    r"|exist|located|registered|set|specified|defined|provided|installed|pres"
    r"ent|configured|mounted|built|compiled|available)\b|\bno such|\bmissing|\bdoes ?n[o']t "
    r"(?:exist|contain|have)|(?:cannot|can't|could not|couldn't|unable to|failed to|did not) (?:fin"
    r"d|locate|open|load|import|fetch|read)|\b404\b|\bundefined|\bunset\b|\bempty\b|\bno (?:\w+ "
    r"){1,3}(?:found|specified|given|provided|exist)|\bnone (?:found|of)|\bunknown (?!error|desc)"
    r"|\bwithout a\b"
)
WRONG = (
    r"\binvalid|unsupported|\bnot (?:be )?(?:support|valid|allowed|recogni|implement|divisib|match"
    r"|equal|compatible|a multiple)|\bdoes ?n[o']t (?:support|match|equal|divide)|\bunexpected\b"
    r"|mismat"
    r"ch|incompatib|unrecogni[sz]ed|\bmust\b|\bexpect(?:ed|s)\b|malformed|\bcannot be\b|\bcan't be"
    r"|\brequire[sd]?\b|\billegal|conflict|inconsisten|\bout of range|misconfig|\btoo (?:small|many"
    r"|few|old|new|low|long|short)|\bonly (?:support|works?|available|one)|\bshould (?:be|have|not)"
    r"|(?:failed|unable|could not|cannot) to? ?(?:parse|load|import|initiali[sz]e|validate|interpre"
    r"t|resolve)|\bambiguous|\bduplicate|already (?:exists|in use|defined)|\bbad\b|\bwrong\b|\bwas "
    r"given|\bbut (?:got|found|is|was|received)\b|\bgot an?\b|\bdiffer|\bgreater than|\bless than"
    r"|\breject|\bbeyond\b|\bbuilt (?:against|for|with)\b|\bcannot (?:mix|use|set|override"
    r"|combine)|deprecated|\bfailed to (?:create|start|build|compi"
    r"le)"
)
CORRUPT = (
    r"corrupt|truncat|checksum|\bcrc\b|unreadable|(?:cannot|can't|could not|couldn't|unable to|fail"
    r"ed to|error) (?:while )?(?:decod|decompress|deseriali[sz]|unpickl|read|pars|identif)\w*"
    r"|\bbad (?:magic|header|record|zip)|\bmagic\b|premature|unexpected (?:end|eof)|malformed"
    r"|garbage|\binvalid (?:json|utf|header|record|magic|start byte|gzip|parquet|load key)"
    r"|\bincomplete|\bdamaged|\bhash mismatch|\bzero[- ](?:bytes|length|size)|\b0 bytes"
    r"|\bnot a (?:valid )?(?:parquet|zip|gzip|tar|json)"
)
FAULT = (
    r"\bfail(?:ed|ure|ing|s)?\b|\bfault|\berrors?\b|uncorrect|unhealthy|degraded|\bfatal|\bdead\b"
    r"|\b(?:is|went|mark(?:ed|ing)|setting|link|state:?) down\b|\bfell\b|\bfallen|\bnot ready|\bst"
    r"uck"
    r"|\bhang\b"
    r"|lock-?up|\bpanic|\bneeds? (?:a )?reset|requires? (?:a )?reset|reset required|\bbroken|overh"
    r"eat|over-?temp"
    r"|\bslowdown|\bretired|\bimpaired|\bdefective|\bdamaged|\bnot (?:detected|visible|responding)"
    r"|\bonly \d+ (?:\w+ )?detected|\blost\b|\bmissing|\breplac\w+|\bexpected \d+"
    r"|below (?:the )?thr"
    r"eshold|less than threshold|\bunexpectedly|rebooted|\bcorrupt"
)
TAKEN = (
    r"evict|preempt|reclaim|interrupt|\bdrain|shut(?:ting)? ?down|\brevoked|\bmarked for (?:termin"
    r"|stop)|\bgoing away"
    r"|to b"
    r"e terminated|will be terminated|\btermination\b|\bwithdrawn|taken away"
)
ILL = (
    r"uncorrect|unhealthy|degraded|\bfatal|\bdead\b|\b(?:is|went|mark(?:ed|ing)|setting"
    r"|set to) down\b"
    r"|\bfail(?:ed|"
    r"ure)\b|\bnot (?:ready|respond|reach|running)|\bstuck|\bhung\b|lock-?up|\bpanic|\breset\b"
    r"|reboot|\bcr"
    r"ash|unrespons|unreachable|\breplac|\blost\b|\bdefect|\bimpaired|\bfault|\bretire"
    r"|\bunexpectedly"
    r"|\bblocked for more than|\bstall|\bi/?o error|\bstatus check|quarantin|\bcordon|machine check"
)
NONFINITE = (
    r"\bnan(?:s|'s)?\b|\binf(?:s|inity)?\b|non-?finite|not finite|infinite|diverg|explod"
    r"|\boverflow"
)

# --- with what
GPU_MEMORY = (
    r"(?:\bcuda|\bgpu|\bdevice|\bhbm|\bvram|\bhip|\bkv[ -]cache|\bcudnn|\bnccl).{0,25}"
    r"(?:memory|\boom\b|alloc)|\bvram|\bhbm|\bkv[ -]cache|video memory"
)
MEMORY = r"\bmemory\b|\bmem\b|\bram\b|\boom\b|\bswap|\brss\b|\bheap|\bmalloc|\bmmap|memory"
DISK = r"\bdisk|\bspace\b|\bvolume (?:is|size)|\binodes?\b|ephemeral|\bstorage (?:space|limit)"
QUOTA = (
    r"\bquota|\bcount limit|\blimit exceed|\bmax(?:imum)? (?:\w+ ){1,3}(?:count|number)"
    r"|\bservice limit|account.{0,20}limit|\bvcpu limit|limit increase|borrowing limit"
)
ROOM = (
    r"\bcapacity\b|\binstances? (?:type )?(?:is |are )?(?:currently )?(?:un|not )available"
    r"|on-demand"
    r"|\bspot (?:capacity|request|fleet)|\bstockout|resource pool|\bfleet\b|\bprovision"
)
STORE = (
    r"\bs3\b|s3[:.]|\bbucket|\bfsx|\blustre|\bnfs|\befs\b|object stor|\bgcs\b|\bgs://|\bhdfs|\bblob"
    r"|\bweka|\bstorage\b|\bdownload|\bupload|file ?system|\bgetobject|\bputobject|\bparallel file"
    r"|\bmount(?:point)?\b|\bobject\b"
)
NETWORK = (
    r"\bconn(?:ection|ect)?\b|\bsocket|\bpeer|\btcp\b|\bdns\b|\bendpoint|\bnetwork|\bproxy|\btls\b"
    r"|\bssl\b|handshake|\bg?rpc\b|\bhost(?:name)?\b|\brouter|\bstream\b|\bdaemons?\b|\bserver\b|"
    r"\bclient\b"
    r"|\bremote\b|\bworker|\brank\b|\bservice\b|\bheartbeat|\bport\b|\burl\b|\blink\b|\bagent\b|\b"
    r"coordinator|\btask\b"
)
COLLECTIVE = (
    r"\branks?[ _]?\d*\b|\bnccl|all_?-?reduce|all_?-?gather|reduce_?-?scatter|all_?-?to_?-?all|\bb"
    r"arrier"
    r"|\bbroadcast"
    r"|collective|rendezvous|process ?group|\brccl|\bgloo"
)
WAITED = (
    r"time[sd]?[ -]?out|timing out|\bhang|\bhung|\bstuck|desync|missing from|(?:did not|never) ret"
    r"urn|\bwaits? in|\bdeadlock|ha(?:s"
    r"|ve) not (?:entered|joined|reached|arrived)|no progress|did not (?:join"
    r"|reach|arrive)|never (?:joined|reached)|\bstall"
)
GPU = (
    r"\bgpus?\b|nvlink|nvswitch|\bpcie?\b|\becc\b|\bhbm\d?\b|\bdcgm|\bnvidia|\bneuron|accelerator"
    r"|fabric[ -]?manager|infiniband|\bhca\b|\bnics?\b|\bmlx\d|\bgsp\b|\bnvml|\bnvrm|row[ -]?remap"
    r"|\bthermal|\bpre-?flight|\bbus ?bw\b|\befa (?:device|interface|driver)|\bhardware"
)
NODE = (
    r"\bnodes?\b|\binstances?\b|\bmachine|\bkernel|\brcu\b|\bcpus?\b|\bhardware|\bnvme|\bhosts?\b|"
    r"\bdimm"
    r"|\bblock device"
)
DATA = (
    r"\bdata ?sets?\b|\bdata(?: file| dir| path|loader)?\b|\bsamples?\b|\bshards?\b|parquet|\btfrec"
    r"ord|\brecords?\b|token ?(?:s|izer|ids?)?\b|\blabels?\b|\bcsv\b|\bjsonl?\b|\bimages? file"
    r"|\bcorpus|\bindex file|\.bin\b|\.idx\b|\.arrow|/data/|\brows?\b|\bcolumns?\b|\bexamples?\b"
    r"|\bchannel\b|\bvocab|\bbatch is\b|\bmanifest\b|\barchive|\bgzip|\btar\b|\bzip\b|\bheader"
    r"|\bdocument|\bfeature|\bsequence index|\bsplit\b"
)
CHECKPOINT = (
    r"checkpoint|\bckpt|state_?dict|optimizer states?|safetensors|\bweights\b|\.distcp|\.pt\b|\.pth"
    r"|\bmodel file|\bpretrained"
)
IMAGE = (
    r"\bimage|\bcontainer|\bdocker|\becr\b|entry ?point|\bcommand|\bscripts?\b|executable|\bruntime"
    r"|\bmanifest|\binterpreter|\bbinary\b|\bmount"
)
CODE = (
    r"tensor|\bshapes?\b|\bdtype|attribute|\bind(?:ex|ices)\b|\bvariable|\bfunction|\bgrad|operand"
    r"|\bdim(?:ension)?s?\b|\bobject\b|\blayer|\bargument|\bmodule\b|\biter|\bsyntax|\bassert"
    r"|\bscalar|\bkeyword|\bmethod|\bcallable|\bstr(?:ing)?\b|\bint\b|\bfloat\b|\blist\b"
)
TIME = (
    r"\b(?:time|duration|run-?time|wall-?(?:time|clock)|hours|minutes) limit|run ?limit"
    r"|\bdeadline|\b(?:training|wall[ -]?clock) (?:time|budget)|\btime budget|\bmax\w*[ _-](?:run "
    r"?time|duration|time|hours)"
)
PASSED = (
    r"reach|used up|exceed|exhaust|ran out|expired|\bhit\b|\bover\b|elapsed|\bended|killed|pa"
    r"ssed"
)
HELD = r"\bspot|\bnode|\binstance|\bpod\b|\bworkload|\bjob\b|\bhost|\breservation"
NUMBERS = r"\bloss\b|\bgrad|\bnorm\b|\btraining\b|\blogits|\bweights?\b|\bactivation"
BUILT = (
    r"\brequirement|\bnvcc\b|architecture|\bgres\b|\bset-?up\b|\binstall|\bbuil[dt]\b|\bcompil"
    r"|\bplugin|\bimport"
)
STALLED = (
    r"(?i)\bno (?:\w+ )?(?:steps?|progress|output|iterations?) (?:\w+ )?(?:for|in|since)\b|made no"
    r" progress"
    r"|\b(?:training|trainer|job|run) (?:is |has )?hung\b|step time exceed|\bhang (?:detected|susp"
    r"ected)|\bdeadlock (?:detected|suspected)"
    r"|\bnot (?:stepped|progressed|advanced) (?:for|since)|did not (?:step|progress|advance)"
)
