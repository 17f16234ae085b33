"""The conformance kit, run on ``trws``."""

from berthage.testing import conformance

TestTrws = conformance("trws")
