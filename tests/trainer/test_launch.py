"""The launcher and its ranks as SageMaker sees them: files in, exit code and failure file out."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from everstep.contracts.env import FailureFile, TrainerEnv
from tests.trainer.forked import run_ranks
from tests.trainer.harness import (
    ROOT,
    SMALL,
    Job,
    Launch,
    free_port,
    losses,
    of_kind,
    progress,
    weights,
)
from trainer.config import TrainerConfig
from trainer.errors import ConfigError, DataError, DivergedError
from trainer.failure import FailureRecorder, is_victim
from trainer.host import Cluster, MlRoot, Worker, env_of
from trainer.prepare import write_dataset
from trainer.train import Where, train


@pytest.mark.parametrize("mode", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"])
def test_every_sharding_has_the_curve_of_one_rank(
    dataset: Path, tmp_path: Path, alone_curve: list[tuple[float, float]], mode: str
) -> None:
    job = run_ranks(
        tmp_path,
        dataset,
        **QUIET,
        parallelism__sharding=mode,
        **({"parallelism__replicate": 2} if mode == "HYBRID_SHARD" else {}),
    )
    curve = [(s["loss"], s["grad_norm"]) for s in of_kind(job.lines, "step")]
    assert len(curve) == 6
    assert [c[0] for c in curve] == pytest.approx([c[0] for c in alone_curve], rel=1e-4)
    assert [c[1] for c in curve] == pytest.approx([c[1] for c in alone_curve], rel=1e-4)


QUIET = {"model__dropout": 0, "train__grad_clip": 0.1, "stop__steps": 6}


@pytest.fixture(scope="module")
def alone_curve(
    one_rank: None, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[float, float]]:
    folder = tmp_path_factory.mktemp("alone")
    flat = SMALL | {k.replace("__", "."): str(v) for k, v in QUIET.items()}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        train(
            TrainerConfig.from_flat(flat),
            TrainerEnv(checkpoint_uri=str(folder)),
            Worker(node_dir=folder, started_epoch=time.time()),
            str(dataset),
            torch.device("cpu"),
            Where(),
        )
    return [(s["loss"], s["grad_norm"]) for s in of_kind(progress(out.getvalue()), "step")]


def test_sharding_modes_are_not_aliases(tmp_path: Path) -> None:
    """Five groups (four blocks and the rest): their collectives, backward included."""
    program = Path(__file__).with_name("count_collectives.py")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            f"--master-port={free_port()}",
            str(program),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["layout"]: (row["counts"], row["share"]) for row in rows} == {
        "FULL_SHARD 1x2": ({"allgather_base": 10, "reduce_scatter_base": 5}, 0.5),
        "SHARD_GRAD_OP 1x2": ({"allgather_base": 5, "reduce_scatter_base": 5}, 0.5),
        "NO_SHARD 2x1": ({"allreduce": 5}, 1.0),
        "HYBRID_SHARD 1x2": ({"allgather_base": 10, "reduce_scatter_base": 5, "allreduce": 5}, 0.5),
        "HYBRID_SHARD 2x1": ({"allreduce": 5}, 1.0),
    }


def test_two_hosts_share_one_job_and_one_first_cause(
    launch: Launch, dataset: Path, tmp_path: Path
) -> None:
    hosts = ["algo-1", "algo-2"]
    where = {"EVERSTEP_MASTER_ADDR": "127.0.0.1", "EVERSTEP_RDZV_PORT": str(free_port())}

    def start(number: int, **changes: object) -> list[Job]:
        return [
            launch(
                "hosts",
                ranks=1,
                number=number,
                ml=host,
                environment=where,
                resource={"current_host": host, "hosts": hosts},
                **changes,
            )
            for host in hosts
        ]

    first, second = start(1, stop__steps=6)
    assert (first.wait(), second.wait()) == (0, 0), first.text + second.text
    assert sorted(losses(first.lines)) == [1, 2, 3, 4, 5, 6]
    assert not second.lines, "only rank 0 prints progress"
    assert weights(tmp_path / "hosts/checkpoints")["world_size"] == 2

    # a rank is killed on the second host; the first host's rank is only a victim
    first, second = start(2, stop__steps=100_000, guard__in_job_restarts=0)
    first.wait_for(lambda line: line["everstep"] == "step" and line["step"] == 8)
    os.kill(second.ranks()[0], signal.SIGKILL)
    assert second.wait() == 137
    assert first.wait() == 1
    failure = _failure(tmp_path / "hosts/output/00002/failure.json")
    assert (failure.kind, failure.rank, failure.host) == ("signal", 1, "algo-2")
    for host in hosts:
        words = (tmp_path / "hosts" / host / "output/failure").read_text()
        assert words.startswith("signal: rank 1 was killed by SIGKILL (rank 1 on algo-2"), words


def test_a_frozen_rank_becomes_an_error(launch: Launch, tmp_path: Path) -> None:
    job = launch(
        "frozen",
        stop__steps=100_000,
        guard__in_job_restarts=0,
        environment={"EVERSTEP_COLLECTIVE_TIMEOUT": "3"},
    )
    job.wait_for(lambda line: line["everstep"] == "step" and line["step"] == 4)
    os.kill(job.ranks()[1], signal.SIGSTOP)
    assert job.wait() == 1
    failure = _failure(tmp_path / "frozen/output/00001/failure.json")
    assert failure.failure_class == "communication_hang"
    assert failure.step
    # gloo's error names neither
    assert failure.rank == 1
    assert re.match(
        r"rank 1 did not come to collective \d+ of group .+, gloo:\w+, in which rank 0 waited: ",
        failure.message,
    )
    flight = tmp_path / "frozen/output/00001/flight-0"
    assert [path.name for path in flight.iterdir()] == ["rank-0.pickle"]


def test_two_ranks_on_s3(launch: Launch, tmp_path: Path, dataset: Path) -> None:
    """Over a socket, as the emulator has it: one upload a node, manifest last, exact resume; the
    data streamed too."""
    import boto3
    from moto.server import ThreadedMotoServer

    port = free_port()
    server = ThreadedMotoServer(port=port)
    server.start()
    try:
        aws = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        s3 = boto3.client(
            "s3",
            endpoint_url=aws["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        s3.create_bucket(Bucket="runs")
        for path in dataset.iterdir():
            s3.put_object(Bucket="runs", Key=f"corpus/{path.name}", Body=path.read_bytes())
        on_s3 = aws | {
            "EVERSTEP_CHECKPOINT_URI": "s3://runs/r/checkpoints",
            "EVERSTEP_OUTPUT_URI": "s3://runs/r/output",
            "EVERSTEP_DATA_URI": "s3://runs/corpus",
        }
        streamed = {"data__mode": "s3", "data__path": ""}
        whole = launch("disk")
        assert whole.wait() == 0, whole.text
        first = launch(
            "s3", environment=on_s3, stop__steps=12, checkpoint__every_steps=5, **streamed
        )
        first.wait_for(lambda line: line["everstep"] == "committed")
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0, first.text
        second = launch("s3", number=2, environment=on_s3, **streamed)
        assert second.wait() == 0, second.text
        assert losses(first.lines) | losses(second.lines) == losses(whole.lines)
    finally:
        server.stop()


def test_a_raising_rank_leaves_its_traceback(launch: Launch, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    write_dataset(broken, [1] * 30, 64, 100)
    job = launch("bad", ranks=1, data__path=str(broken))
    assert job.wait() == 1
    failure = _failure(tmp_path / "bad/output/00001/failure.json")
    assert (failure.kind, failure.failure_class) == ("DataError", "bad_data")
    assert "too few for one sequence of 32" in failure.message
    assert "Traceback" in failure.traceback
    first, *rest = (tmp_path / "bad/ml/output/failure").read_text().splitlines()
    assert first.startswith("DataError: ")
    assert "hint: " in first
    assert any("Traceback" in line for line in rest)


def test_a_wrong_hyperparameter_names_field_and_value(launch: Launch, tmp_path: Path) -> None:
    job = launch("config", ranks=1, train__lr="fast", train__steps=3)
    assert job.wait() == 1
    failure = _failure(tmp_path / "config/output/00001/failure.json")
    assert failure.failure_class == "bad_config"
    assert "train.lr" in failure.message
    assert "'fast'" in failure.message
    assert "train.steps" in failure.message
    assert "Traceback" in failure.traceback
    assert "Traceback" not in job.text
    assert "ConfigError: " in job.text


@pytest.mark.parametrize(
    "name", ["EVERSTEP_RANKS_PER_NODE", "EVERSTEP_RDZV_PORT", "SM_NUM_GPUS", "SM_HOSTS"]
)
def test_a_wrong_variable_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{name}='abc' is (?:no number|not JSON).*hint"):
        Cluster.parse({name: "abc"}, MlRoot(root=tmp_path))
    with pytest.raises(ConfigError, match=r"EVERSTEP_LAUNCH='abc': .*hint"):
        env_of({"EVERSTEP_LAUNCH": "abc"})


def test_divergence_has_its_class(launch: Launch, tmp_path: Path) -> None:
    job = launch("diverge", ranks=1, train__lr=1e30, train__warmup_steps=0, guard__rewinds=0)
    assert job.wait() == 1
    failure = _failure(tmp_path / "diverge/output/00001/failure.json")
    assert (failure.kind, failure.failure_class) == ("DivergedError", "diverged")
    assert failure.step is not None


def test_first_cause_wins(tmp_path: Path) -> None:
    env = TrainerEnv(output_uri=str(tmp_path / "out"), launch=3)
    (tmp_path / "ml").mkdir()
    culprit = FailureRecorder(env, MlRoot(root=tmp_path / "ml"), "algo-2", 5)
    victim = FailureRecorder(env, MlRoot(root=tmp_path / "ml"), "algo-1", 0)
    cause = culprit.from_exception(DivergedError("step 7: loss nan", "lower train.lr"), 6)
    assert culprit.write(cause).rank == 5
    late = victim.from_exception(RuntimeError("Connection closed by peer [127.0.0.1]:1"), 6)
    assert victim.write(late).rank == 5
    assert _failure(tmp_path / "out/00003/failure.json").kind == "DivergedError"
    assert (tmp_path / "ml/output/failure").read_text().startswith("DivergedError: step 7")
    culprit.clear()
    assert not (tmp_path / "out/00003").exists()


def test_what_an_earlier_start_of_the_launch_left_is_no_cause(tmp_path: Path) -> None:
    """Where S3 was too busy to clear it: told by its age."""
    env, ml = TrainerEnv(output_uri=str(tmp_path / "out"), launch=3), MlRoot(root=tmp_path / "ml")
    old = FailureRecorder(env, ml, "algo-1", 0)
    old.write(old.from_exception(ValueError("before the restart"), 6))
    restarted = FailureRecorder(env, ml, "algo-2", 1, started=time.time() + 300)
    later = restarted.from_exception(KeyError("after it"), 9)
    later = later.model_copy(update={"time_epoch": later.time_epoch + 301})
    assert restarted.write(later) == later
    assert _failure(tmp_path / "out/00003/failure.json") == later


def test_victims_are_told_from_causes() -> None:
    assert is_victim(RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer"))
    assert is_victim(type("DistBackendError", (RuntimeError,), {})("NCCL error"))
    assert not is_victim(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_victim(ValueError("Connection closed by peer"))
    assert not is_victim(DataError("Broken pipe", "…"))


def test_cluster_from_sagemakers_file_variables_or_alone(tmp_path: Path) -> None:
    ml = MlRoot(root=tmp_path)
    alone = Cluster.parse({}, ml)
    assert (alone.hosts, alone.node, alone.master_addr) == (["localhost"], 0, "127.0.0.1")
    by_variables = Cluster.parse(
        {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2", "SM_NUM_GPUS": "8"}, ml
    )
    worker = by_variables.worker_environment(3)
    assert (worker["RANK"], worker["WORLD_SIZE"], worker["MASTER_ADDR"]) == ("11", "16", "algo-1")
    config = tmp_path / "input/config"
    config.mkdir(parents=True)
    (config / "resourceconfig.json").write_text(
        json.dumps(
            {
                "current_host": "algo-1",
                "hosts": ["algo-1", "algo-2"],
                "network_interface_name": "eth0",
            }
        )
    )
    by_file = Cluster.parse({"SM_NUM_GPUS": "0", "EVERSTEP_RDZV_PORT": "4321"}, ml)
    worker = by_file.worker_environment(0)
    assert (worker["RANK"], worker["WORLD_SIZE"], worker["MASTER_PORT"]) == ("0", "2", "4321")
    assert worker["GLOO_SOCKET_IFNAME"] == "eth0"
    with pytest.raises(ConfigError, match="'algo-9' is not among"):
        Cluster.parse(
            {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-9"}, MlRoot(root=tmp_path / "none")
        )


def test_ranks_without_our_launcher(dataset: Path, tmp_path: Path) -> None:
    """The documented command for use alone: torchrun, a TOML file and ``--set``."""
    config = tmp_path / "run.toml"
    sections: dict[str, list[str]] = {}
    for key, value in SMALL.items():
        section, name = key.split(".")
        text = value if value.replace(".", "").isdigit() else f'"{value}"'
        sections.setdefault(section, []).append(f"{name} = {text}")
    config.write_text("".join(f"[{s}]\n" + "\n".join(rows) + "\n" for s, rows in sections.items()))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            f"--master-port={free_port()}",
            "-m",
            "trainer.main",
            "--config",
            str(config),
            "--set",
            f"data.path={dataset}",
            "--set",
            "stop.steps=4",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(losses(progress(done.stdout))) == [1, 2, 3, 4]
    assert weights(tmp_path / "checkpoints")["final"]


def _failure(path: Path) -> FailureFile:
    return FailureFile.model_validate_json(path.read_bytes())
