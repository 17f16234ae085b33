"""The whole test of a solver plugin: the conformance kit makes a test class from its name."""

from berthage.testing import conformance

TestDepthFirst = conformance("dfbb-example")
TestGivenOrder = conformance("dfbb-example", options={"order": "given"}, max_examples=5)
