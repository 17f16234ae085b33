"""The conformance kit, run on ``exact``."""

from berthage.testing import conformance

TestExact = conformance("exact")
