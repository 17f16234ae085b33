"""From measurements to a profile: what made the shipped profiles, and what ``berthage nccl fit`` runs."""

from berthage_nccl.fit.collectives import fit_collectives, fit_networks
from berthage_nccl.fit.gemm import fit_gemms
from berthage_nccl.fit.measurements import Measurement, Products, read_gemms, read_measurements
from berthage_nccl.fit.write import to_toml

__all__ = [
    "Measurement",
    "Products",
    "fit_collectives",
    "fit_gemms",
    "fit_networks",
    "read_gemms",
    "read_measurements",
    "to_toml",
]
