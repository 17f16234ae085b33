"""The same search gives the same plan: in every process, for every hash seed, thread count and order of searches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

SEARCHES = """
import json, sys
from berthage import SolveParams
from berthage_torch import Constraints, search
from berthage_torch.models import zoo
threads, *order = sys.argv[1:]
gpt2 = dict(layers=2, batch=8, sequence=64, dim=64, heads=4, vocab=96)
tight = Constraints(inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"}, parameter_memory=(0.0, 0.4))
ways = {
    "8x8": lambda **more: search(zoo.build("mlp"), None, "dp=8,tp=8", **more),
    "4x16": lambda **more: search(zoo.build("mlp"), None, "dp=4,tp=16", **more),
    "near a seed": lambda **more: search(zoo.build("mlp", layers=1), None, "a=2,b=2,c=8", **more),
    "tight memory": lambda **more: search(zoo.build("gpt2", **gpt2), None, "dp=2,tp=2", constraints=tight, **more),
}
found = {}
for name in order:
    plan = ways[name](params=SolveParams(threads=int(threads)))
    found[name] = [plan.objective, plan.bound, plan.placement_hash()]
print(json.dumps(found))
"""
ORDER = ("8x8", "4x16", "near a seed", "tight memory")


def in_a_process(number: int) -> Any:
    """Every process has another hash seed and number of threads, and every other one searches in the reverse order."""
    threads = str(1 + number % 4)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(11 * number + 1),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads),
    }
    order = ORDER if number % 2 else ORDER[::-1]
    done = subprocess.run(
        [sys.executable, "-c", SEARCHES, threads, *order],
        capture_output=True, text=True, timeout=240, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same_in(processes: int) -> None:
    first, *others = [in_a_process(number) for number in range(processes)]
    assert set(first) == set(ORDER)
    assert first["8x8"] != first["4x16"]
    assert [other for other in others if other != first] == []


def test_meshes_in_any_order_hash_seeds_and_threads_give_one_plan() -> None:
    """What is searched first is alone in its process."""
    same_in(3)


@pytest.mark.slow
def test_twenty_processes_give_one_plan() -> None:
    same_in(20)
