"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import hookimpl
from berthage.registry import CommandInfo


@hookimpl
def berthage_commands() -> list[CommandInfo]:
    """``berthage search``, ``explain``, ``diff``, ``reprice``, ``run``, ``verify`` and ``profile``."""
    commands = "berthage_torch.commands"
    needs = ("click", "rich")
    return [
        CommandInfo(
            "search", "Search a plan for a PyTorch model.", f"{commands}.searching:search", requires=(*needs, "torch")
        ),
        CommandInfo("explain", "Say what a plan does and costs.", f"{commands}.plans:explain", requires=needs),
        CommandInfo("diff", "Compare two plans.", f"{commands}.plans:diff", requires=needs),
        CommandInfo(
            "reprice",
            "Price a plan at other shapes or by another cost model.",
            f"{commands}.plans:reprice",
            requires=(*needs, "torch"),
        ),
        CommandInfo(
            "run", "Carry a plan out on ranks and train.", f"{commands}.running:run", requires=(*needs, "torch")
        ),
        CommandInfo(
            "verify",
            "Count what a plan will run.",
            f"{commands}.running:verify",
            requires=(*needs, "torch"),
        ),
        CommandInfo(
            "profile", "Run a matrix of searches.", f"{commands}.profiling:profile", requires=(*needs, "torch")
        ),
    ]
