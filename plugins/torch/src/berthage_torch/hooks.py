"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations
