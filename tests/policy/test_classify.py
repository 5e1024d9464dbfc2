"""Evidence → class: the corpus, the order of evidence, causes before victims, no secret kept."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from everstep.contracts.env import FailureFile
from everstep.contracts.failures import (
    Action,
    DecisionKind,
    FailureClass,
    StopReason,
    UserRule,
)
from everstep.contracts.progress import format_line
from everstep.contracts.records import Launch, Outcome
from everstep.contracts.run_spec import RunSpec
from everstep.policy import classify as rules
from everstep.policy.classify import Evidence, LogLine, classify, explain
from everstep.policy.reading import Where, read
from everstep.policy.redact import redact
from everstep.policy.retry import History, decide
from everstep.policy.rule import Source, from_user
from everstep.policy.rules import RULES

F, K = FailureClass, DecisionKind
CORPUS = [json.loads(x) for x in (Path(__file__).parent / "corpus.jsonl").open(encoding="utf-8")]


def failed(reason: str = "", *log: str, **more: Any) -> Evidence:
    return Evidence(
        outcome=Outcome(status="Failed", secondary_status="Failed", failure_reason=reason),
        log=[LogLine(time_epoch=100.0 + i, text=text) for i, text in enumerate(log)],
        **more,
    )


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: e["id"])
def test_a_message_gets_its_class_and_its_action(entry: dict[str, Any]) -> None:
    """What each round scored when it was new is in corpus.md; here nothing may be lost again."""
    failure = classify(read(entry["text"], Where(entry["where"])))
    assert failure.failure_class in {entry["class"], *entry.get("also", [])}
    assert failure.action in {entry["action"], *entry.get("also_action", [])}
    assert failure.cause
    assert len(failure.cause) <= rules.CAUSE_LENGTH
    assert "\n" not in failure.cause
    assert 0 < failure.confidence <= 1


def test_the_corpus_is_broad() -> None:
    assert len(CORPUS) >= 200
    assert len({e["class"] for e in CORPUS}) >= 15
    assert {e["where"] for e in CORPUS} == set(Where)
    assert len({e["id"] for e in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: e["id"])
def test_of_a_run_no_ended_job_is_waited_for_and_no_log_buys_a_free_attempt(
    entry: dict[str, Any],
) -> None:
    """The same text as the log of a job of ours that failed."""
    found = classify(failed("AlgorithmError: , exit code: 1", *entry["text"].splitlines()))
    assert found.action is not Action.WAIT
    assert found.failure_class not in {F.CAPACITY, F.QUOTA, F.THROTTLING, F.MAX_RUNTIME}


def test_a_run_tries_a_doubtful_exception_again_and_a_static_one_not() -> None:
    for text, alone, in_run in (
        ("ValueError: x", Action.DO_NOT_RETRY, Action.RETRY_SAME),
        ("ModuleNotFoundError: No module named 'x'", Action.DO_NOT_RETRY, Action.DO_NOT_RETRY),
    ):
        assert classify(read(text, Where.LOG)).action is alone
        assert classify(failed("AlgorithmError: x", text)).action is in_run


def test_a_killed_host_is_no_memory_trouble_of_a_run() -> None:
    reason = "AlgorithmError: , exit code: 137"
    assert classify(read(reason, Where.REASON)).failure_class is F.OUT_OF_MEMORY_HOST
    found = classify(failed(reason))
    assert (found.failure_class, found.action) == (F.INFRASTRUCTURE, Action.RETRY_SAME)


# --- what is said beside the class ----------------------------------------------------------------


def test_the_cause_has_its_rank_and_its_time() -> None:
    text = (
        "2026-01-02 03:04:06,000 [rank1]: Watchdog caught collective operation timeout\n"
        "2026-01-02T03:04:07Z [rank5]: torch.OutOfMemoryError: CUDA out of memory."
    )
    found = classify(read(text, Where.LOG))
    assert (found.rank, found.time_epoch) == (5, 1767323047.0)
    block = "  rank      : 6 (local_rank: 2)\n  exitcode  : -9 (pid: 36071)"
    assert classify(read(block, Where.LOG)).rank == 6


def test_an_explanation_names_what_was_outranked_and_keeps_no_secret() -> None:
    text = "Watchdog caught collective operation timeout\nValueError: DB_PASSWORD=hunter2hunter2"
    found = explain(read(text, Where.LOG))
    assert [f.rule.id for f in found.findings] == ["python", "collective"]
    assert "hunter2" not in repr(found.findings[0].text) + found.failure.cause


# --- rules of the user's own ---------------------------------------------------------------------

MINE = UserRule.model_validate(
    {"id": "mine", "pattern": "quota of tokens", "class": "quota", "action": "do_not_retry"}
)


def test_a_rule_of_the_users_own_comes_before_the_built_in_ones() -> None:
    text = "ValueError: the quota of tokens is used up"
    found = classify(read(text, Where.LOG), from_user([MINE]))
    assert (found.failure_class, found.rule) == (F.QUOTA, "user:mine")
    assert classify(read(text, Where.LOG)).failure_class is F.USER_CODE
    # Only of its own source, and never for free attempts.
    reason = classify(read("ClientError: quota of tokens", Where.REASON), from_user([MINE]))
    assert reason.rule == "client"
    assert classify(failed("", text), from_user([MINE])).failure_class is F.BAD_CONFIG


@pytest.mark.parametrize("pattern", ["(", "a*", "x" * 301, "ab"])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        UserRule.model_validate({"id": "x", "pattern": pattern, "class": "quota"})


# --- the order of evidence ---------------------------------------------------------------------

CUDA = "torch.OutOfMemoryError: CUDA out of memory."
FILE = FailureFile(kind="ValueError", message="bad shape", rank=3, time_epoch=200.0)


def test_our_own_stop_outranks_everything_that_the_job_says() -> None:
    found = classify(
        Evidence(
            stop_reason=StopReason.HANG,
            stop_detail="900 s in phase step",
            outcome=Outcome(status="Stopped", secondary_status="MaxRuntimeExceeded"),
            failure_file=FILE,
            log=[LogLine(time_epoch=1, text=CUDA)],
        )
    )
    assert (found.failure_class, found.cause) == (F.HANG, "900 s in phase step")


def test_an_exception_of_any_name_outranks_the_peers_that_lost_it() -> None:
    """A rank raised, in words of the user's own; the other one only saw its connection close."""
    file = FILE.model_copy(update={"kind": "LabelTrouble", "traceback": "Traceback (most …"})
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.1]:4"
    found = classify(failed("AlgorithmError: LabelTrouble: bad shape", lost, failure_file=file))
    assert (found.failure_class, found.rank) == (F.USER_CODE, 3)
    assert found.cause == "LabelTrouble: bad shape"
    victim = file.model_copy(update={"kind": "RuntimeError", "message": lost})
    found = classify(failed("AlgorithmError: x", lost, failure_file=victim))
    assert found.failure_class is F.INFRASTRUCTURE


def test_the_status_outranks_the_failure_file_and_the_log() -> None:
    found = classify(
        Evidence(
            outcome=Outcome(status="Stopped", secondary_status="Stopped"),
            failure_file=FILE,
            log=[LogLine(time_epoch=1, text=CUDA)],
        )
    )
    assert found.failure_class is F.USER_STOP


def test_the_prefix_of_the_reason_outranks_the_failure_file_and_the_log() -> None:
    found = classify(failed("InternalServerError: We lost it.", CUDA, failure_file=FILE))
    assert found.failure_class is F.INFRASTRUCTURE


def test_only_the_start_of_the_reason_is_its_prefix() -> None:
    found = classify(failed("AlgorithmError: ValueError: CapacityError: no"))
    assert found.failure_class is F.USER_CODE


def test_a_class_that_the_trainer_names_outranks_the_log() -> None:
    file = FILE.model_copy(update={"failure_class": "diverged"})
    found = classify(failed("AlgorithmError: x", CUDA, failure_file=file))
    assert (found.failure_class, found.rank, found.rule) == (F.DIVERGED, 3, "failure-file")
    assert found.action is Action.RETRY_REPLACE_NODE


def test_what_only_a_log_calls_diverged_is_not_tried_again() -> None:
    found = classify(failed("AlgorithmError: x", "RuntimeError: Loss is nan at iteration 9012"))
    assert (found.failure_class, found.action) == (F.DIVERGED, Action.DO_NOT_RETRY)


def test_a_class_that_does_not_exist_is_passed_over() -> None:
    file = FILE.model_copy(update={"failure_class": "gremlins"})
    assert classify(failed("AlgorithmError: x", failure_file=file)).failure_class is F.USER_CODE


@pytest.mark.parametrize("name", list(F))
def test_any_class_a_trainer_may_name_has_an_action_that_fits_it(name: FailureClass) -> None:
    file = FailureFile(kind="Foreign", message="m", failure_class=name)
    found = classify(failed("AlgorithmError: x", failure_file=file))
    assert found.failure_class is name
    hopeless = {
        F.BAD_CONFIG,
        F.BAD_DATA,
        F.BUDGET,
        F.EXPORT_FAILED,
        F.OUT_OF_MEMORY_GPU,
        F.OUT_OF_MEMORY_HOST,
        F.USER_STOP,
    }
    assert (found.action is Action.DO_NOT_RETRY) == (name in hopeless)


def test_a_hint_of_another_cause_of_the_same_class_is_not_given() -> None:
    file = FailureFile(kind="ConfigError", message="no such preset", failure_class="bad_config")
    assert "volume" not in classify(failed("AlgorithmError: x", failure_file=file)).hint


# --- causes and victims --------------------------------------------------------------------------

VICTIM = "[rank{}]:[E] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"


def test_one_quiet_cause_outranks_a_hundred_loud_victims_that_spoke_first() -> None:
    log = [VICTIM.format(i, i) for i in range(100)] + ["[rank77]: ValueError: the cause"]
    found = classify(failed("AlgorithmError: , exit code: 1", *log))
    assert (found.failure_class, found.rank) == (F.USER_CODE, 77)
    assert "the cause" in found.cause


def test_among_causes_the_earliest_wins_whatever_the_order_of_hosts() -> None:
    lines = [
        LogLine(time_epoch=300, host="algo-1", text="ValueError: late"),
        LogLine(time_epoch=200, host="algo-2", text=CUDA),
    ]
    for log in (lines, lines[::-1]):
        found = classify(Evidence(outcome=failed().outcome, log=log))
        assert found.failure_class is F.OUT_OF_MEMORY_GPU


def test_among_victims_alone_the_earliest_wins() -> None:
    found = classify(failed("", VICTIM.format(4, 4), "Connection closed by peer"))
    assert (found.failure_class, found.rank) == (F.COMMUNICATION_HANG, 4)


def test_the_failure_file_takes_its_place_in_time_among_the_log() -> None:
    for when, wanted in ((50.0, F.USER_CODE), (500.0, F.OUT_OF_MEMORY_GPU)):
        file = FILE.model_copy(update={"time_epoch": when})
        assert classify(failed("", CUDA, failure_file=file)).failure_class is wanted


def test_a_killed_rank_is_worth_another_attempt_and_its_memory_killer_is_not() -> None:
    killed = FailureFile(kind="signal", message="rank 1 was killed by SIGKILL")
    assert classify(failed("", failure_file=killed)).failure_class is F.INFRASTRUCTURE
    found = classify(failed("", "kernel: Out of memory: Killed process 7", failure_file=killed))
    assert found.failure_class is F.OUT_OF_MEMORY_HOST


def test_progress_lines_are_no_evidence_of_failure() -> None:
    line = format_line("step", step=3, loss=float("nan"))
    assert classify(failed("", line)).failure_class is F.UNKNOWN


# --- endings that are no failure -----------------------------------------------------------------


def test_a_trainer_that_saved_and_ended_before_its_deadline_goes_on() -> None:
    for reason, wanted in (("deadline", F.MAX_RUNTIME), ("sigterm", F.INTERRUPTED)):
        found = classify(
            Evidence(
                outcome=Outcome(status="Completed", secondary_status="Completed"),
                log=[LogLine(time_epoch=1, text=format_line("stopped", step=4, reason=reason))],
            )
        )
        assert found.failure_class is wanted


def test_what_verify_outcome_missed_is_the_cause_of_incomplete() -> None:
    found = classify(
        Evidence(
            outcome=Outcome(status="Completed", secondary_status="Completed"),
            incomplete="no committed checkpoint",
        )
    )
    assert (found.failure_class, found.cause) == (F.INCOMPLETE, "no committed checkpoint")


def test_nothing_at_all_is_unknown_and_says_so() -> None:
    found = classify(Evidence())
    assert (found.failure_class, found.cause) == (F.UNKNOWN, "no cause was found")


# --- safety of the text --------------------------------------------------------------------------

SECRETS = [
    ("AKIAABCDEFGHIJKLMNOP", "{}"),
    ("hf_" + "x" * 34, "401 for {}"),
    ("hunter2hunter2", "DB_PASSWORD={}"),
    ("hunter2hunter2", '{{"password": "{}"}}'),
    ("hunter2hunter2", "{{'api_key': '{}'}}"),
    ("hunter2hunter2", "--hf-token {}"),
    ("hunter2hunter2", "https://user:{}@example.org/x"),
    ("eyJhbGciOiJIUzI1NiJ9eyJzdWI", "Authorization: Bearer {}"),
    ("FwoGZXIvYXdzEBYaD", "https://s3/x?X-Amz-Security-Token={}&a=b"),
    ("c0ffee00c0ffee", "https://s3/x?X-Amz-Signature={}"),
    ("83746512", "db_password: 83746512"),
]


@pytest.mark.parametrize(("secret", "form"), SECRETS)
def test_a_secret_leaves_the_cause_line(secret: str, form: str) -> None:
    text = "ValueError: " + form.format(secret)
    for found in (
        classify(failed("", text)),
        classify(failed("ClientError: " + text)),
        classify(
            failed(
                "AlgorithmError: x",
                failure_file=FailureFile(kind="E", message=text, failure_class="user_code"),
            )
        ),
    ):
        assert secret not in found.model_dump_json()


@pytest.mark.parametrize(
    "text",
    [
        "tokens_per_s: 12345678",
        "token: 123456",
        "max_token=4096",
        "secret: arn:aws:secretsmanager:us-east-1:1:secret:x",
        "the tokenizer is loaded",
        "KeyError: 'token'",
        "https://example.org:443/a@b",
    ],
)
def test_words_that_are_no_secrets_stay(text: str) -> None:
    assert redact(text) == text


def test_redacting_twice_is_redacting_once() -> None:
    for secret, form in SECRETS:
        once = redact(form.format(secret))
        assert redact(once) == once


UNITS = ["a.", "A-", "[a] ", " ", "secret", "://a:", "x" * 50 + "=", "a_", "1", "(", "Error: "]
UNITS += ["s3 ", "node ", "pull ", "timeout ", "shard ", "not ", "no ", "memory ", "is "]


@pytest.mark.parametrize("unit", UNITS)
def test_a_megabyte_of_anything_is_classified_in_no_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    failure = classify(failed(text, text, failure_file=FailureFile(kind="E", message=text)))
    assert failure.failure_class in set(F)
    assert len(failure.cause) < 1_000
    once = redact(text[:100_000])
    assert redact(once) == once
    assert time.process_time() - began < 10


# --- the table --------------------------------------------------------------------------------


def test_every_class_has_an_action_and_every_reason_a_class() -> None:
    assert set(rules.ACTIONS) == set(F)
    assert set(rules.STOP_REASONS) == set(StopReason)


def test_rule_ids_are_unique_and_patterns_compile() -> None:
    assert len({r.id for r in RULES}) == len(RULES)
    assert all(re.compile(r.pattern) for r in RULES)
    assert all(0 < r.confidence <= 1 for r in RULES)
    assert {r.source for r in RULES} == set(Source)


def test_what_the_trainer_has_survived_is_no_cause() -> None:
    """A restart in the job leaves the words of the former ranks in the log."""
    log = [
        LogLine(time_epoch=1, host="algo-1", text="ValueError: sample 17 has no label"),
        LogLine(time_epoch=2, host="algo-1", text='{"everstep":"restart","generation":1}'),
        LogLine(time_epoch=3, host="algo-1", text='{"everstep":"step","step":11,"loss":1.0}'),
    ]
    before = Evidence(outcome=Outcome(status="Failed", secondary_status="Failed"), log=log[:1])
    assert classify(before).failure_class is F.USER_CODE
    after = before.model_copy(update={"log": log})
    assert classify(after).failure_class is F.UNKNOWN
    later = [*log, LogLine(time_epoch=4, text="KeyError: 'text'")]
    assert "KeyError" in classify(before.model_copy(update={"log": later})).cause


# --- a form that nobody wrote down ---------------------------------------------------------------


def log(text: str) -> Any:
    return classify(read(text, Where.LOG))


def test_a_subject_and_its_symptom_say_the_class_where_no_form_is_known() -> None:
    for text, name, action in (
        (
            "ckptd: the parallel file system hung up on shard 7",
            F.STORAGE_TRANSIENT,
            "retry_backoff",
        ),
        ("guard: the activations reached infinity", F.DIVERGED, "do_not_retry"),
        ("launcher: the interpreter of rank 0 is missing", F.BAD_CONFIG, "do_not_retry"),
        ("agent: accelerator 3 is unhealthy", F.INFRASTRUCTURE, "retry_replace_node"),
    ):
        found = log(text)
        assert (found.failure_class, found.action) == (name, action), text
        assert found.rule.startswith("words:")
        assert found.confidence <= 0.5


def test_words_never_outrank_a_form() -> None:
    found = log("the accelerator is unhealthy\nKeyError: 'text'")
    assert (found.failure_class, found.cause) == (F.USER_CODE, "KeyError: 'text'")


def test_words_of_a_run_ask_for_one_more_attempt_and_name_no_class() -> None:
    found = classify(failed("AlgorithmError: , exit code: 1", "the accelerator is unhealthy"))
    assert (found.failure_class, found.action) == (F.UNKNOWN, Action.RETRY_SAME)


@pytest.mark.parametrize(("committed", "wanted"), [(0, K.GIVE_UP), (40, K.RETRY)])
def test_words_beside_a_bare_exit_code_buy_an_attempt_only_after_progress(
    committed: int, wanted: K
) -> None:
    """Words turn "no more is known" into "once more": what bounds it is ``retry``."""
    failure = classify(failed("AlgorithmError: , exit code: 1", "the accelerator is unhealthy"))
    last = Launch(
        run_id="r",
        launch=1,
        job_name="r-1",
        execution_arn="a",
        nodes=1,
        instance_type="ml.m5.large",
        planned_epoch=0,
        failure=failure,
        committed_step=committed,
    )
    compute = [{"instance_type": "ml.m5.large"}]
    spec = RunSpec.model_validate(
        {"model": "tiny", "data": "d", "stop": {"steps": 9}, "compute": compute}
    )
    assert decide(spec, failure, History(launches=[last]), lambda: 0).kind is wanted
    twice = [last, last.model_copy(update={"launch": 2, "resume_step": committed})]
    assert decide(spec, failure, History(launches=twice), lambda: 0).kind is K.GIVE_UP


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("write(7): ENOSPC", F.BAD_CONFIG),
        ("read: EIO", F.STORAGE_TRANSIENT),
        ("connect: EHOSTUNREACH", F.INFRASTRUCTURE),
        ("tcp connect error (os error 111)", F.INFRASTRUCTURE),
        ("clone3: ENOMEM", F.OUT_OF_MEMORY_HOST),
    ],
)
def test_an_errno_is_known_by_its_name_and_by_its_number(line: str, name: F) -> None:
    assert log(line).failure_class is name


@pytest.mark.parametrize(
    "line",
    [
        "libnvinfer.so.7: cannot open shared object file; ignoring",
        "AER: Corrected error received: 0000:3b:00.0",
        "Gradient overflow. Skipping step, loss scale 16384",
    ],
)
def test_what_was_done_without_or_corrected_is_of_a_live_job(line: str) -> None:
    assert log(line).action is Action.WAIT
    end = "fatal: giving up after 3 attempts" if "Corrected" not in line else "NVRM: Xid 79"
    assert log(f"{line}\n{end}").action is not Action.WAIT


def test_events_of_a_cluster_are_read_in_a_controllers_log() -> None:
    line = 'E0619 1 job_controller.go:601] err="pods \\"a\\" is forbidden: '
    line += 'exceeded quota: t, requested: g=8, used: g=16, limited: g=16"'
    assert log(line).failure_class is F.QUOTA


def test_a_run_hears_a_driver_that_calls_itself_nonfatal_and_no_clusters_queue() -> None:
    xid = "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13"
    found = classify(failed("AlgorithmError: , exit code: 1", xid))
    assert (found.failure_class, found.action) == (F.INFRASTRUCTURE, Action.RETRY_REPLACE_NODE)
    queued = "Normal  Pending  kueue-admission  couldn't assign flavors to pod set a: pending"
    assert log(queued).action is Action.WAIT
    found = classify(failed("InternalServerError: We encountered an internal error.", queued))
    assert found.failure_class is F.INFRASTRUCTURE


def test_the_name_of_an_exception_is_anyones_its_message_is_not() -> None:
    assert log("pool.CapacityError: the buffer is full").failure_class is F.USER_CODE
    assert log("pool.Trouble: the buffer holds nan gradients").failure_class is F.DIVERGED


def test_whoever_passed_a_line_on_does_not_hide_it() -> None:
    for tag in ("[1,5]<stderr>:", "(train, pid=77) ", "[rank5]: ", "algo-2 | ", "[default3]:"):
        assert log(f"{tag}ImportError: no x").rule == "python-static", tag


def test_steps_after_a_trouble_mean_that_it_was_survived_but_not_in_a_job_that_ended() -> None:
    trouble = "OSError: [Errno 5] Input/output error"
    steps = ["step 7 | loss 2.0 | tok/s 9", "step 8 | loss 2.0 | tok/s 9"]
    assert log("\n".join([trouble, *steps])).action is Action.WAIT
    assert log("\n".join([trouble, steps[0]])).action is not Action.WAIT
    assert log("\n".join([*steps, trouble])).action is not Action.WAIT
    found = classify(failed("AlgorithmError: x", trouble, *steps))
    assert (found.failure_class, found.action) == (F.STORAGE_TRANSIENT, Action.RETRY_BACKOFF)


def test_lines_that_differ_in_a_number_that_matters_are_asked_apart() -> None:
    xid = "NVRM: Xid (PCI:0000:38:00): {}, pid=7, name=python"
    for one, other in ((31, 79), (79, 31)):
        found = explain(read(f"{xid.format(one)}\n{xid.format(other)}", Where.LOG)).findings
        assert {f.rule.failure_class for f in found} == {F.USER_CODE, F.INFRASTRUCTURE}
    code = "worker exited with exit code {}"
    assert log(f"{code.format(0)}\n{code.format(137)}").failure_class is F.OUT_OF_MEMORY_HOST


@pytest.mark.parametrize(
    "text",
    [
        "|  TrainingJobStatus | Stopped |\n|  SecondaryStatus | MaxRuntimeExceeded |",
        "{'TrainingJobStatus': 'Stopped', 'SecondaryStatus': 'MaxRuntimeExceeded'}",
        "TrainingJobStatus=Stopped SecondaryStatus=MaxRuntimeExceeded",
        "Training job runtime exceeded MaxRuntimeInSeconds provided",
    ],
)
def test_a_status_is_read_in_whatever_form_it_was_printed(text: str) -> None:
    found = classify(read(text, Where.STATUS))
    assert (found.failure_class, found.action) == (F.MAX_RUNTIME, Action.CONTINUE_AS_NEW)
