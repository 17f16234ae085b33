"""The conformance kit, run on ``trws-lazy``."""

from berthage.testing import conformance

TestTrwsLazy = conformance("trws-lazy")
