"""The problem model: variables, costs, relations, budgets, and pure derivations of them."""

from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.builder import ProblemBuilder
from berthage.problem.derive import Derived
from berthage.problem.in_full import priced
from berthage.problem.labels import LabelSet
from berthage.problem.lower import allowed_labels, allowed_pairs, lower_relations
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import Relation, RelationKind, Relations
from berthage.problem.stats import ProblemStats, component_of
from berthage.problem.tables import ClassedTable, CostOracle, CostTable, DenseTable, LazyTable

__all__ = [
    "ClassedTable",
    "CostOracle",
    "CostTable",
    "DenseTable",
    "Derived",
    "IntervalBudget",
    "LabelSet",
    "LazyTable",
    "LinearBudget",
    "PlacementProblem",
    "ProblemBuilder",
    "ProblemStats",
    "Relation",
    "RelationKind",
    "Relations",
    "allowed_labels",
    "allowed_pairs",
    "component_of",
    "lower_relations",
    "priced",
]
