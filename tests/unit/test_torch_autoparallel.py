"""The interface of the other library, over our search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import Replicate, Shard

from berthage import InvalidProblemError, OptionError, SolutionUnavailableError, UnknownNameError, evaluate
from berthage_torch import AutoParallel, MixedPrecision, search


def model() -> nn.Module:
    with torch.device("meta"):
        return nn.Sequential(nn.Linear(256, 1024, bias=False), nn.ReLU(), nn.Linear(1024, 256, bias=False))


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.zeros(512, 256),)


def device_mesh(*sizes: int, names: tuple[str, ...] | None = None) -> DeviceMesh:
    """A mesh that has no process group behind it."""
    ranks = torch.arange(torch.Size(sizes).numel()).reshape(sizes)
    return DeviceMesh("cpu", ranks, mesh_dim_names=names, _init_backend=False, _rank=0)


@pytest.fixture
def auto() -> Iterator[AutoParallel]:
    with AutoParallel(model(), inputs, "dp=2,tp=4") as found:
        yield found


class TestLikeTheOtherLibrary:
    def test_a_script_of_its_users_runs_with_another_import(self) -> None:
        mesh = device_mesh(2, 4, names=("dp", "tp"))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        with AutoParallel(model(), inputs, mesh, policy) as autop:
            autop.add_parameter_memory_constraint(low=None, high=None)
            x_sharding = (Shard(0), Replicate())
            autop.add_input_constraints([x_sharding])
            autop.add_output_constraints([x_sharding])
            solution = autop.optimize_placement()
        plan = solution.plan
        assert plan.solver in ("ilp-pulp", "ilp-pyomo")
        assert plan.termination == "optimal"
        assert plan.node("input:args[0]").outputs == ("S(0)R",)
        assert plan.node("output").inputs == ("S(0)R",)
        assert plan.mesh == {"dp": 2, "tp": 4}
        assert all(
            sum("S" in part for part in node.outputs) for node in plan.nodes if node.op == "parameter"
        )  # the least memory shards every parameter
        same = search(
            model(), inputs, "dp=2,tp=4", constraints=autop.constraints, policy=MixedPrecision(cast_inputs=True)
        )
        assert solution.objective == pytest.approx(same.objective, rel=1e-9)

    def test_a_mesh_without_names_has_them_made(self) -> None:
        assert AutoParallel(model(), inputs, device_mesh(2, 4)).mesh.names == ("d0", "d1")
        assert AutoParallel(model(), inputs, {"a": 2}).mesh.sizes == (2,)

    def test_what_means_nothing_here_is_said_to_be_passed_over(self) -> None:
        with pytest.warns(UserWarning, match="compile has no meaning"):
            AutoParallel(model(), inputs, "x=2", compile=True)
        with pytest.raises(TypeError, match="no argument 'solvr'"):
            AutoParallel(model(), inputs, "x=2", solvr="ilp")


class TestConstraints:
    def test_they_have_names_and_can_be_removed(self, auto: AutoParallel) -> None:
        before = auto.optimize_placement()
        auto.add_input_constraints(["RR"])
        auto.add_output_constraints([("S(0)", "S(1)")])
        auto.add_parameter_memory_constraint(0.0, 0.5)
        auto.add_peak_memory_constraint(0.9)
        auto.add_node_constraint("*.weight", [Replicate(), Replicate()])
        names = auto.constraint_names
        assert names == ("input input:args[0]", "output output", "pin *.weight", "parameter memory", "peak memory")
        auto.remove_constraint(*names)
        assert auto.constraint_names == ()
        after = auto.optimize_placement()
        assert after.found.problem == before.found.problem
        assert after.plan.placement_hash() == before.plan.placement_hash()
        with pytest.raises(InvalidProblemError, match="There is: nothing"):
            auto.remove_constraint("peak memory")

    def test_none_demands_nothing_of_an_input(self, auto: AutoParallel) -> None:
        auto.add_input_constraints([None])
        assert auto.constraint_names == ()

    @pytest.mark.parametrize(
        ("placements", "message"),
        [
            ([], "0 placements for 1 tensor inputs"),
            ([(Shard(0),)], "input input:args.0.: placements .* 1 dimensions"),
            ([(Shard(0), "Q")], "'Q' is no placement"),
        ],
    )
    def test_what_cannot_be_meant_is_named(self, auto: AutoParallel, placements: list[Any], message: str) -> None:
        with pytest.raises(OptionError, match=message):
            auto.add_input_constraints(placements)

    def test_it_is_a_context_manager(self) -> None:
        with pytest.raises(OptionError, match="with AutoParallel"):
            AutoParallel(model(), inputs, "x=2").add_input_constraints(["R"])


class TestSolvers:
    @pytest.mark.parametrize("solver", ["ilp", "lp", "approx", "trws"])
    def test_they_find_the_same(self, auto: AutoParallel, solver: str) -> None:
        auto.add_input_constraints(["S(0)R"])
        auto.add_parameter_memory_constraint()
        exact = auto.optimize_placement()
        assert auto.optimize_placement(solver).objective == pytest.approx(exact.objective, rel=1e-9)

    def test_a_misspelt_one_is_told(self, auto: AutoParallel) -> None:
        with pytest.raises(UnknownNameError, match="ipl"):
            auto.optimize_placement("ipl")
        with pytest.raises(UnknownNameError):
            AutoParallel(model(), inputs, "x=2", solver="ipl")

    def test_options_are_those_of_the_search_and_of_the_solver(self, auto: AutoParallel) -> None:
        found = auto.optimize_placement("trws", {"seed": 3, "iteration_limit": 50})
        assert found.found.result.seed == 3
        with pytest.raises(OptionError, match="magic"):
            auto.optimize_placement("trws", {"magic": 1})

    def test_a_fractional_relaxation_points_to_the_exact_solver(self) -> None:
        """A memory limit between what shardings use cuts the relaxation."""
        with AutoParallel(model(), inputs, "dp=2,tp=4", solver="lp") as auto:
            auto.add_input_constraints(["S(0)R"])
            auto.add_output_constraints(["S(0)R"])
            auto.add_parameter_memory_constraint(0.0, 0.45)
            with pytest.raises(SolutionUnavailableError, match=r"fractional.*solver='ilp'"):
                auto.optimize_placement()
            exact = auto.optimize_placement("ilp", optimality_check=True)
        assert exact.certificate is not None
        assert not exact.certificate.integral
        assert exact.certificate.gap < 1e-6  # the exact solver's own proof is the better one

    def test_what_cannot_be_is_told_by_name(self, auto: AutoParallel) -> None:
        auto.add_node_constraint("*.weight", "RR")
        auto.add_parameter_memory_constraint()
        auto.remove_constraint("parameter memory")
        auto.add_parameter_memory_constraint(0.0, 0.5)
        with pytest.raises(SolutionUnavailableError, match=r"parameter memory.*pin 0\.weight"):
            auto.optimize_placement()


class TestOptimalityCheck:
    def test_the_relaxation_bounds_what_was_found(self, auto: AutoParallel) -> None:
        auto.add_input_constraints(["S(0)R"])
        checked = auto.optimize_placement("approx", optimality_check=True)
        assert checked.certificate is not None
        assert checked.certificate.bound <= checked.objective * (1 + 1e-9)
        assert checked.certificate.gap == pytest.approx(0.0, abs=1e-6)
        assert checked.plan.bound >= checked.certificate.bound * (1 - 1e-9)
        assert auto.optimize_placement("approx").certificate is None

    def test_it_leaves_everything_as_it_was(self, auto: AutoParallel) -> None:
        auto.add_input_constraints(["S(0)R"])
        auto.add_parameter_memory_constraint(0.0, 0.3)
        fresh = auto.optimize_placement("ilp")
        auto.optimize_placement("approx", optimality_check=True)
        again = auto.optimize_placement("ilp")
        assert again.found.problem == fresh.found.problem
        assert again.plan.placement_hash() == fresh.plan.placement_hash()
        result = again.found.result
        assert evaluate(again.found.problem, result.require()).violations == ()


def test_nothing_can_be_applied_before_it_was_found(auto: AutoParallel) -> None:
    with pytest.raises(SolutionUnavailableError, match="optimize_placement first"):
        auto.apply_placement()
