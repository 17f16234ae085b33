"""The conformance kit: one fresh pytest class per solver, reduction, format or seeder."""

from berthage.testing.kit.formats import format_checks, format_conformance
from berthage.testing.kit.reductions import reduction_checks, reduction_conformance
from berthage.testing.kit.seeders import seeder_checks, seeder_conformance
from berthage.testing.kit.solvers import conformance, solver_checks

__all__ = [
    "conformance",
    "format_checks",
    "format_conformance",
    "reduction_checks",
    "reduction_conformance",
    "seeder_checks",
    "seeder_conformance",
    "solver_checks",
]
