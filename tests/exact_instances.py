"""The real problems that ``exact`` is measured on: how to read each, and its optimum."""

from __future__ import annotations

from pathlib import Path

import pytest

from berthage import PlacementProblem, read_problem

# file below data/map, options of the reader, optimum
MAP: dict[str, tuple[str, dict[str, str], float]] = {
    "pdb1i24": ("pdb1i24/pdb1i24.uai.xz", {}, 439.393174),
    "pdb1jmx": ("pdb1jmx/pdb1jmx.uai.xz", {}, 1154.608359),
    "cpd_1aho": ("cpd_1aho/1aho.cfn.gz", {}, -33.72992),
    "cap131": ("cap131/cap131.wcsp.xz", {}, 7934385),
    "wcsp_13": ("wcsp_13/wcsp_13.uai.xz", {}, 0.489001),
    "wcsp_16": ("wcsp_16/wcsp_16.uai.xz", {}, 37.974233),
    "celar6sub0": ("celar6sub0/celar6sub0.wcsp.xz", {}, 159),
    "CELAR7-SUB0": ("CELAR7-SUB0/CELAR7-SUB0.wcsp.xz", {}, 10310),
    "DBN": ("DBN_rus_20_40_0_1/rus_20_40_0_1.uai.xz", {"evidence": "rus_20_40_0_1.uai.evid"}, -1420.207053),
    "GEOM40_6": ("GEOM40_6/GEOM40_6.wcsp.xz", {}, 0),
    "ImageAlignment_12": ("ImageAlignment_12/ImageAlignment_12.uai.xz", {}, 1005.468476),
    "mpopt_gm_000": ("mpopt_gm_000/gm_000.uai.xz", {"values": "cost"}, 10719),
}
SHARDING: dict[str, float] = {
    "mlp2_8x8": 2317.750602016334,
    "llama2l_8x8": 14078.906077553715,
    "llama2l_8x8_mem0.25": 13728.956646261886,
    "llama1b_8x8": 70703.09868683433,
    "llama1l_4x4x4": 10460.631461178873,
}
IOPDDL: dict[str, float] = {"G": 217039, "B": 532843}


def read_instance(data: Path, name: str) -> tuple[PlacementProblem, float]:
    """The problem of that name and its optimum; skips the test where the file is absent."""
    options: dict[str, str] = {}
    if name in MAP:
        file, options, optimum = MAP[name]
        path = data / "map" / file
        if "evidence" in options:
            options = {**options, "evidence": str(path.parent / options["evidence"])}
    elif name in SHARDING:
        path, optimum = data / "sharding" / f"{name}.npz", SHARDING[name]
    else:
        path, optimum = data / "iopddl" / f"asplos-2025-iopddl-{name}.json.gz", IOPDDL[name]
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return read_problem(path, **options), optimum
