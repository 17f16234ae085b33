"""What this plugin offers; light."""

from __future__ import annotations

from berthage import hookimpl
from berthage.registry import FormatInfo
from berthage_formats.options import IopddlOptions, ReadLimits, ShardingOptions, UaiOptions


@hookimpl
def berthage_formats() -> list[FormatInfo]:
    """Published problem files."""
    return [
        FormatInfo(
            name="iopddl",
            summary="ASPLOS 2025 IOPDDL contest JSON: problems with a usage limit over time; solution lists.",
            target="berthage_formats.iopddl:IopddlFormat",
            sniff="berthage_formats.sniff:is_iopddl",
            extensions=(".json", ".iopddl"),
            writes=True,
            options=IopddlOptions,
        ),
        FormatInfo(
            name="uai",
            summary="UAI MARKOV/BAYES models with factors of at most two variables; potentials or costs.",
            target="berthage_formats.uai:UaiFormat",
            sniff="berthage_formats.sniff:is_uai",
            extensions=(".uai",),
            writes=True,
            options=UaiOptions,
        ),
        FormatInfo(
            name="wcsp",
            summary="Weighted CSP files with functions in extension of at most two variables.",
            target="berthage_formats.wcsp:WcspFormat",
            extensions=(".wcsp",),
            writes=True,
            options=ReadLimits,
        ),
        FormatInfo(
            name="cfn",
            summary="Cost function networks in JSON with tables of at most two variables.",
            target="berthage_formats.cfn:CfnFormat",
            extensions=(".cfn",),
            writes=True,
            options=ReadLimits,
        ),
        FormatInfo(
            name="gap",
            summary="OR-library generalised assignment problems (minimisation).",
            target="berthage_formats.gap:GapFormat",
            sniff="berthage_formats.sniff:is_gap",
            extensions=(".gap",),
            options=ReadLimits,
        ),
        FormatInfo(
            name="sharding",
            summary="Recorded sharding searches: NAME.npz with NAME.json beside it.",
            target="berthage_formats.sharding:ShardingFormat",
            sniff="berthage_formats.sniff:is_sharding",
            extensions=(".npz",),
            options=ShardingOptions,
        ),
    ]
