"""Seeding: an assignment to search near, and the search that stays within a Hamming distance of it.

A seeder proposes a `Seed`; `restrict` keeps the labels near it; `solve_seeded` does both and says what the restriction
may have cost.
"""

from berthage.seeding.ball import Restriction, possible_labels, restrict
from berthage.seeding.cache import SeedCache, Solved
from berthage.seeding.propose import Dimensions, DimensionSeeder, Seeder, propose
from berthage.seeding.seed import Seed
from berthage.seeding.seeded import SeededResult, outside_ball, solve_seeded

__all__ = [
    "DimensionSeeder",
    "Dimensions",
    "Restriction",
    "Seed",
    "SeedCache",
    "SeededResult",
    "Seeder",
    "Solved",
    "outside_ball",
    "possible_labels",
    "propose",
    "restrict",
    "solve_seeded",
]
