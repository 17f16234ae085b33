"""Plugins: what they say about themselves, how they are found, and how their options are checked."""

from berthage.registry.catalog import Conflict
from berthage.registry.descriptions import (
    Capability,
    CommandInfo,
    CostModelInfo,
    FormatInfo,
    FrontEndInfo,
    Info,
    ReductionInfo,
    SeederInfo,
    SolverInfo,
)
from berthage.registry.hookspecs import hookimpl
from berthage.registry.load import Registry, load_registry
from berthage.registry.options import OptionField, build_options, describe_options
from berthage.registry.sources import PluginRecord, PluginStatus

__all__ = [
    "Capability",
    "CommandInfo",
    "Conflict",
    "CostModelInfo",
    "FormatInfo",
    "FrontEndInfo",
    "Info",
    "OptionField",
    "PluginRecord",
    "PluginStatus",
    "ReductionInfo",
    "Registry",
    "SeederInfo",
    "SolverInfo",
    "build_options",
    "describe_options",
    "hookimpl",
    "load_registry",
]
