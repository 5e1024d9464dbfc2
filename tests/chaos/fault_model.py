"""The design's fault model, row by row: how a fault is asked for, and how its run must end.

A row is shown by cases of this folder, by tests that exist elsewhere (``shown_by``), or is ``not
yet`` done, with the reason. ``tests/chaos/test_fault_model.py`` runs the cases and checks the rest.
"""

from everstep.contracts.failures import FailureClass as F
from tests.chaos import asks
from tests.chaos.cases import Case, Row, last_words, sabotage
from tests.chaos.random_faults import CONTINUE_AFTER_TURNS, FINISH, FOREIGN_EXPORT

XID = "NVRM: Xid (PCI:0000:b7:00): 79, pid=2412, name=python, GPU has fallen off the bus."
HOST_MEMORY = (
    "Memory cgroup out of memory: Killed process 2412 (python) total-vm:412345678kB, "
    "anon-rss:248123456kB; oom-kill:constraint=CONSTRAINT_MEMCG"
)
CONTROL_PLANE = "tests/scenarios/test_control_plane.py::"
RECOVERY = "tests/scenarios/test_recovery.py::"
STALLS = "tests/chaos/test_stalls.py::"
TRAINER = "tests/trainer/test_launch.py::"
SPOT = {"compute": [{"instance_type": "ml.m5.large", "nodes": 2, "purchase": "spot"}]}
SLOW = {"LEAN_STEP_SECONDS": "0.2"}

FAULT_MODEL: tuple[Row, ...] = (
    Row(
        "rank raises / exits / is killed",
        cases=(
            Case(
                "rank-raises",
                "torch",
                "same",
                classes=(F.USER_CODE,),
                launches=2,
                environment=sabotage("raise"),
                says="DataLoaderBug: sample 17 has no label",
            ),
            Case(
                "rank-killed",
                "torch",
                "same",
                ask=asks.kill_rank(at=14),
                launches=1,
                attempts=1,
                says='"everstep":"restarted"',
            ),
        ),
    ),
    Row("host lost", shown_by=(RECOVERY + "test_a_killed_host_costs_steps_and_nothing_else",)),
    Row(
        "collective hangs (one rank frozen)",
        shown_by=(
            RECOVERY + "test_a_frozen_rank_is_seen_stopped_and_resumed",
            TRAINER + "test_a_frozen_rank_becomes_an_error",
            "tests/trainer/test_hangs.py::test_a_rank_that_is_alive_elsewhere_is_named",
        ),
    ),
    Row(
        "all ranks freeze",
        cases=(
            Case(
                "all-freeze",
                "lean",
                "same",
                ask=asks.freeze_all(at=12),
                classes=(F.HANG,),
                launches=2,
                spec={"watch": {"starting": 60, "warmup": 60, "step": 4}},
            ),
        ),
    ),
    Row(
        "watchdog off for an hour",
        shown_by=(CONTROL_PLANE + "test_a_silent_watchdog_stops_nothing_healthy",),
    ),
    Row(
        "*Stop execution* in the console",
        shown_by=(CONTROL_PLANE + "test_stop_execution_leaves_no_job_and_redrive_goes_on",),
    ),
    Row(
        "slow rank (straggler)",
        cases=(
            Case(
                "straggler",
                "torch",
                "same",
                classes=(F.STRAGGLER,),
                launches=2,
                environment=sabotage("slow_sleep") | {"SABOTAGE_RANK": "1"},
                spec={
                    "compute": [
                        {"instance_type": "ml.m5.large", "nodes": 2},
                        {"instance_type": "ml.m5.xlarge", "nodes": 2},
                    ],
                    "guard": {"straggler_every": 2},
                    "watch": {"step": 60, "straggler_reports": 3},
                },
                says="rank 1 took",
            ),
        ),
        shown_by=("tests/trainer/test_straggler.py::test_the_slow_rank_is_named",),
    ),
    Row(
        "NaN / loss spike",
        cases=(
            Case(
                "nan",
                "torch",
                "refused",
                classes=(F.DIVERGED, F.DIVERGED),
                launches=2,
                environment=sabotage("nan", launches=9),
                says="step 17: loss nan",
            ),
            Case(
                "nan-host",
                "torch",
                "arrives",
                classes=(F.DIVERGED,),
                launches=2,
                attempts=2,
                environment=sabotage("nan"),
                says="step 17: loss nan",
            ),
            Case(
                "nan-batch",
                "torch",
                "arrives",
                launches=1,
                attempts=1,
                environment=sabotage("poison"),
                says='"everstep":"rewind"',
            ),
        ),
        shown_by=(
            "tests/trainer/test_guard.py::test_a_poisoned_batch_is_skipped_and_nothing_else",
            "tests/trainer/test_guard.py::test_killed_in_the_rewind_skips_the_same",
        ),
    ),
    Row(
        "GPU error (Xid 48/63/64/74/79/94/95/119…)",
        cases=(
            Case(
                "xid",
                "lean",
                "same",
                classes=(F.INFRASTRUCTURE,),
                launches=2,
                environment=last_words(XID),
            ),
        ),
    ),
    Row(
        "out of GPU memory",
        cases=(
            Case(
                "gpu-memory",
                "torch",
                "refused",
                classes=(F.OUT_OF_MEMORY_GPU,),
                launches=1,
                environment=sabotage("gpu_memory"),
                says="Tried to allocate 2.00 GiB",
            ),
        ),
    ),
    Row(
        "host out of memory, disk full",
        cases=(
            Case(
                "host-memory",
                "lean",
                "refused",
                classes=(F.OUT_OF_MEMORY_HOST,),
                launches=1,
                environment=last_words(HOST_MEMORY, code=137),
                says="host memory",
            ),
            Case(
                "disk-full",
                "torch",
                "refused",
                classes=(F.BAD_CONFIG,),
                launches=1,
                environment=sabotage("disk_full"),
                says="No space left on device",
            ),
        ),
    ),
    Row(
        "S3 503 SlowDown, Lustre stall",
        cases=(
            Case(
                "slow-down",
                "torch",
                "same",
                before=asks.slow_down(20),
                ask=asks.slow_down(20, at=15),
                launches=1,
                attempts=1,
            ),
            Case(
                "slow-down-foreign",
                "lean",
                "same",
                before=asks.slow_down(8),
                ask=asks.slow_down(8, at=15),
                launches=1,
                attempts=1,
            ),
        ),
        shown_by=(
            STALLS + "test_a_short_stall_costs_no_attempt",
            STALLS + "test_a_long_stall_is_a_hang_that_names_the_file_system",
        ),
    ),
    Row(
        "capacity, quota, API throttling",
        shown_by=(
            CONTROL_PLANE + "test_no_capacity_spends_no_attempt",
            CONTROL_PLANE + "test_a_run_waits_for_quota_on_one_state",
        ),
        cases=(
            Case(
                "throttled",
                "lean",
                "same",
                before=asks.throttle("CreateTrainingJob", 15),
                attempts=1,
            ),
        ),
    ),
    Row(
        "spot reclaim, SIGTERM",
        cases=(
            Case(
                "spot-back",
                "torch",
                "same",
                ask=asks.interrupt_spot(at=14, capacity_back=True),
                launches=1,
                attempts=1,
                spec=SPOT,
                says='"everstep":"stopped"',
            ),
            Case(
                "spot-gone",
                "lean",
                "same",
                ask=asks.interrupt_spot(at=14, capacity_back=False),
                classes=(F.INTERRUPTED,),
                launches=2,
                spec=SPOT,
                environment=SLOW,
            ),
            Case(
                "spot-no-warning",
                "lean",
                "same",
                ask=asks.kill_host(at=14),
                classes=(F.INFRASTRUCTURE,),
                launches=2,
                spec=SPOT,
                environment=SLOW,
            ),
        ),
    ),
    Row(
        "MaxRuntime",
        cases=(
            Case(
                "deadline",
                "lean",
                "same",
                classes=(F.MAX_RUNTIME,),
                launches=2,
                attempts=1,
                environment={"LEAN_STEP_SECONDS": "0.25"},
                spec={"stop": {"steps": 40, "max_runtime_hours": 9 / 3600}},
            ),
            Case(
                "deadline-ignored",
                "lean",
                "same",
                classes=(F.MAX_RUNTIME,),
                launches=2,
                attempts=1,
                environment={"LEAN_STEP_SECONDS": "0.2", "LEAN_DEAF": "1"},
                spec={"stop": {"steps": 40, "max_runtime_hours": 6 / 3600}},
            ),
        ),
        shown_by=("tests/trainer/test_resume.py::test_deadline_saves_and_stops",),
    ),
    Row(
        "user stop",
        cases=(
            Case(
                "user-stop",
                "lean",
                "refused",
                ask=asks.stop_job(at=12),
                classes=(F.USER_STOP,),
                launches=1,
                environment=SLOW,
                says="stopped by someone",
            ),
        ),
    ),
    Row(
        "event lost, doubled, late, out of order",
        shown_by=(
            CONTROL_PLANE + "test_a_lost_event_costs_a_minute_of_the_watchdog",
            CONTROL_PLANE + "test_events_three_times_and_late_change_nothing",
        ),
    ),
    Row(
        "checkpoint torn or bit-flipped",
        cases=(
            Case(
                "bit-flipped",
                "torch",
                "same",
                ask=asks.damage(at=24, how="flip"),
                classes=(F.INFRASTRUCTURE,),
                launches=2,
                says='"everstep":"skip_checkpoint"',
            ),
            Case(
                "torn",
                "lean",
                "same",
                ask=asks.damage(at=24, how="tear"),
                classes=(F.INFRASTRUCTURE,),
                launches=2,
                says='"everstep":"skip_checkpoint"',
                environment=SLOW,
            ),
        ),
    ),
    Row(
        "Lambda fails half way",
        cases=(
            Case(
                "every-handler-dies-once",
                "lean",
                "same",
                before=asks.every_handler_dies,
                ask=asks.past_every_handler,
                after=asks.none_left,
                classes=(
                    F.QUOTA,
                    *(F.CAPACITY,) * CONTINUE_AFTER_TURNS,
                    F.INFRASTRUCTURE,
                    F.USER_CODE,
                    F.USER_CODE,
                ),
                launches=8,
                environment={"LEAN_STEP_SECONDS": "0.8", "LEAN_BUG_AT": "32"},
                spec={"finish": {**FINISH, "command": FOREIGN_EXPORT}},
            ),
        ),
        shown_by=(
            "tests/lambdas/test_half_runs.py::test_a_handler_that_dies_at_any_call_and_runs_again_ends_the_same",
        ),
    ),
    Row(
        "the same user bug every time",
        shown_by=(
            CONTROL_PLANE
            + "test_the_same_bug_ends_after_the_second_attempt_and_redrive_goes_on_once_mended",
        ),
    ),
    Row(
        "EFA missing → TCP fallback",
        cases=(
            Case(
                "no-efa",
                "torch",
                "refused",
                classes=(F.BAD_CONFIG,),
                launches=1,
                environment=sabotage("no_efa"),
                says="NCCL uses Socket on ml.p5.48xlarge, which has EFA",
            ),
        ),
        shown_by=("tests/trainer/test_health.py::test_public_logs_are_judged",),
    ),
)
