"""Berthage's own files: atomic writing and the native problem format."""

from berthage.files.atomic import atomic_write
from berthage.files.problems import read_problem, write_problem

__all__ = ["atomic_write", "read_problem", "write_problem"]
