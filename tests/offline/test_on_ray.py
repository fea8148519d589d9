"""The same shards on a local Ray of four logical CPUs, and on three nodes."""

from functools import partial

import pytest

from hf_summ.offline.engines import in_this_process, on_ray
from hf_summ.offline.run import run_plan
from tests.offline.conftest import ROWS, plan, rows_of, rows_with, work

ray = pytest.importorskip("ray")
Cluster = pytest.importorskip("ray.cluster_utils").Cluster
# starting Ray takes twenty seconds
pytestmark = pytest.mark.thorough


@pytest.fixture
def local_ray():
    """A local Ray, whose processes end with the test."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_shards_are_the_same_and_survive_a_killed_process(mortal, local_ray):
    rows = rows_with("deadly", 25)
    rows[7] = {"id": 7, "text": None}
    job, here = plan(mortal, "out", rows), plan(mortal, "here", rows)
    engine = partial(on_ray, work(mortal, is_mortal=True), job, address=None)
    with pytest.raises(ValueError, match="--num_processes 5: Ray has 4 CPUs and 0 GPUs: give at most 4"):
        run_plan(job, {}, partial(engine, tasks=5))
    run_plan(here, {}, partial(in_this_process, work(mortal), here))
    # a shard of an earlier run
    first = "shard-00000000.parquet"
    (mortal / "out" / first).write_bytes((mortal / "here" / first).read_bytes())
    progress: list[int] = []
    outcome = run_plan(job, {}, lambda done, _: engine(done, progress.append, tasks=1))
    assert (outcome.rows, progress) == (30, [10, 10, 10])
    assert rows_of(mortal / "out") == rows_of(mortal / "here")


def test_rows_that_end_every_process_are_named(mortal, local_ray):
    job = plan(mortal, "out", rows_with("fatal", 35))
    engine = partial(on_ray, work(mortal, is_mortal=True), job, tasks=1, address=None)
    with pytest.raises(ValueError, match="4 processes died at rows 31 to 40: if memory was too small, lower --batch"):
        run_plan(job, {}, engine)
    assert job.done() == {0, 1, 2}


def test_a_process_with_a_gpu_loads_the_model_once(mortal):
    """Ray believes in the GPU that it is told of; the model is on the CPU."""
    ray.init(address="local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        job = plan(mortal, "out", ROWS)
        engine = partial(on_ray, work(mortal, is_mortal=True), job, tasks=None, address=None)
        assert run_plan(job, {}, engine).rows == 40
    finally:
        ray.shutdown()
    assert [file.read_text() for file in mortal.glob("loaded-*")] == ["once "]


def test_a_run_survives_the_loss_of_a_machine(mortal):
    """Three of Ray's nodes on this machine, of which one is killed at the first finished shard."""
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "_system_config": {"health_check_period_ms": 1000}})
    lost, _ = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        job = plan(mortal, "out", ROWS)
        finished: list[int] = []

        def progress(number: int) -> None:
            finished.append(number)
            if len(finished) == 1:
                cluster.remove_node(lost, allow_graceful=False)

        engine = partial(on_ray, work(mortal), job, tasks=None, address=None)
        assert run_plan(job, {}, lambda done, _: engine(done, progress)).rows == 40
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert [row["id"] for row in rows_of(mortal / "out")] == list(range(40))
