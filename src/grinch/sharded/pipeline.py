"""The stages of a run one after the other, each on as many workers as there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grinch.running import Here, Stage, Workers, read_checkpoint, stamp_of
from grinch.sharded.job import Job, RunFolder, piece_tasks, shard_name
from grinch.sharded.stages import exchange, graph, route, skeleton, top, trees


@dataclass(frozen=True)
class Run:
    """A finished run: what each stage took, and the number of points of each branch."""

    job: Job
    stages: dict[str, Stage]
    sizes: list[int]
    moved: int

    @property
    def is_opened(self) -> bool:
        """Whether leaves of the upper tree may be parts of branches."""
        return self.job.opens_branches(len(self.sizes))


def run_stages(job: Job, workers: Workers) -> Run:
    """Run everything from the sample to the upper tree; what is finished already is not done again."""
    stages: dict[str, Stage] = {}
    run = _runner(job, workers, stages)
    run(skeleton.SAMPLE, skeleton.run_sample, piece_tasks(job))
    run(skeleton.STAGE, skeleton.run, {skeleton.NAME: (job,)})
    plan = skeleton.load(job)
    run(route.STAGE, route.run, piece_tasks(job))
    moved = 0
    if job.moves_points(plan.n_branches):
        run(exchange.ASKING, exchange.ask, skeleton.shard_tasks(job))
        decided = run(exchange.DECIDING, exchange.decide, skeleton.shard_tasks(job))
        moved = sum(int(result["moved"]) for result in decided.values())
    built = run(trees.STAGE, trees.run, skeleton.shard_tasks(job))
    by_branch = {int(branch): size for result in built.values() for branch, size in result["sizes"].items()}
    sizes = [by_branch[branch] for branch in range(plan.n_branches)]
    run(top.STAGE, top.run, {top.NAME: (job, sizes)})
    return Run(job, stages, sizes, moved)


def run_graph(run: Run, workers: Workers | Here) -> None:
    """Find the neighbour graph for the automatic cut; what each stage took is added to the run."""
    go = _runner(run.job, workers, run.stages)
    asked = go(graph.ASKING, graph.ask, graph.asking_tasks(run.job, run.sizes))
    k = max(int(result["k"]) for result in asked.values())
    go(graph.JOINING, graph.join, graph.joining_tasks(run.job, k))


def has_graph(run: Run) -> bool:
    """Return whether the neighbour graph is known."""
    return graph.JOINING in run.stages


def is_kept(run: Run) -> bool:
    """Return whether the trees of a run are still in its folder, and not those of another."""
    return are_trees_there(run.job, run.job.stamp, skeleton.load(run.job).n_shards)


def are_trees_there(run: RunFolder, stamp: str, n_shards: int) -> bool:
    """Return whether the trees of a run are in its folder; ``stamp`` is that of its job."""
    stages: list[tuple[str, Callable[..., Any], list[str]]]
    shards = [shard_name(shard) for shard in range(n_shards)]
    stages = [(trees.STAGE, trees.run, shards), (top.STAGE, top.run, [top.NAME])]
    return all(
        read_checkpoint(run.path(stage, f"{name}.json"), stamp_of(stage, name, task, stamp)) is not None
        for stage, task, names in stages
        for name in names
    )


def _runner(job: Job, workers: Workers | Here, stages: dict[str, Stage]) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a stage and records what it took."""

    def run(stage: str, task: Callable[..., Any], tasks: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        begun = time.perf_counter()
        results = workers.run(stage, task, tasks, job.folder, stamp=job.stamp)
        read, written = (sum(int(result.get(name, 0)) for result in results.values()) for name in ("read", "written"))
        seconds = time.perf_counter() - begun
        stages[stage] = replace(workers.stages[stage], seconds=seconds, read=read, written=written)
        return results

    return run
