"""The conformance kit, run on ``trws-lazy``: as it comes, and with a candidate limit that has to grow."""

import pytest

from berthage.testing import conformance

TestTrwsLazy = conformance("trws-lazy")
TestTrwsLazyFewCandidates = pytest.mark.slow(conformance("trws-lazy", options={"candidates": 1}))
