"""The conformance kit, run on the integer programming solvers."""

from berthage.testing import conformance

ONCE = {"hooks_are_light": "the plugin has one hooks module, looked at with ilp-pulp"}

TestIlpPulp = conformance("ilp-pulp")
TestIlpPulpCbc = conformance("ilp-pulp", options={"backend": "cbc"}, exclude=ONCE)
TestIlpPyomo = conformance("ilp-pyomo", exclude=ONCE)
