"""The conformance kit, run on the integer programming solvers."""

import pytest

from berthage.testing import conformance

ONCE = {"hooks_are_light": "the plugin has one hooks module, looked at with ilp-pulp"}

TestIlpPulp = conformance("ilp-pulp")
TestIlpPyomo = conformance("ilp-pyomo", exclude=ONCE, max_examples=10)
# A process a solve: the same checks as for HiGHS, in the long run.
TestIlpPulpCbc = pytest.mark.slow(conformance("ilp-pulp", options={"backend": "cbc"}, exclude=ONCE))
