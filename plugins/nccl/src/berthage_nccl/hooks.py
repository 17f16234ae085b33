"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import hookimpl
from berthage.registry import CommandInfo, CostModelInfo


@hookimpl
def berthage_cost_models() -> list[CostModelInfo]:
    """The shipped profiles, one cost model each."""
    return [
        CostModelInfo("nccl-h100", "NCCL on H100 SXM, 8 a node: fitted to measurements", "berthage_nccl.shipped:h100"),
        CostModelInfo("nccl-h200", "NCCL on H200 SXM, 8 a node: carried over from H100", "berthage_nccl.shipped:h200"),
        CostModelInfo("nccl-a100", "NCCL on A100 SXM, 8 a node: extrapolated from H100", "berthage_nccl.shipped:a100"),
        CostModelInfo("nccl-b200", "NCCL on B200 SXM, 8 a node: extrapolated from H100", "berthage_nccl.shipped:b200"),
    ]


@hookimpl
def berthage_commands() -> list[CommandInfo]:
    """``berthage price`` and ``berthage nccl``."""
    return [
        CommandInfo("price", "Price a collective or a GEMM.", "berthage_nccl.commands:price", requires=("click",)),
        CommandInfo("nccl", "Make profiles from measurements.", "berthage_nccl.commands:nccl", requires=("click",)),
    ]
