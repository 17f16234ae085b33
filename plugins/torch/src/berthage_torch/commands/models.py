"""What ``--model`` names: a model of the zoo, or a function of the user's."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from berthage import InvalidProblemError
from berthage_torch.models import zoo
from berthage_torch.models.spec import ModelSpec
from berthage_torch.plans.plan import Plan
from berthage_torch.plans.retracing import unknown_model
from berthage_torch.plans.settings import Origin

__all__ = ["again", "model_of"]


def model_of(name: str, sizes: Mapping[str, str]) -> tuple[nn.Module | ModelSpec, Any]:
    """The model and its inputs; the inputs are None when the model brings them.

    Args:
        name: A model of the zoo, or ``package.module:factory``: a function that returns a module and its inputs (as
            `berthage_torch.trace` takes them), or a `ModelSpec`. Modules of the working folder are found.
        sizes: Arguments of the factory, as text.

    Raises:
        UnknownNameError: No such model.
        InvalidProblemError: The factory is not there, or gives something else.
    """
    arguments = {key: _value(text) for key, text in sizes.items()}
    if ":" not in name:
        return zoo.build(name, **arguments), None
    module_name, _, function = name.partition(":")
    with _working_folder():
        try:
            factory: Any = importlib.import_module(module_name)
            for part in function.split("."):
                factory = getattr(factory, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidProblemError(f"--model {name}: {error}") from error
    if not callable(factory):
        raise InvalidProblemError(f"--model {name}: {function} is no function but {type(factory).__name__}")
    try:
        made = factory(**arguments)
    except TypeError as error:
        raise InvalidProblemError(f"--model {name}: {error}") from error
    if isinstance(made, ModelSpec):
        return made, None
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
        return made[0], made[1]
    raise InvalidProblemError(
        f"--model {name}: the function returns a module and its inputs, (module, inputs), not {type(made).__name__}"
    )


def again(plan: Plan, name: str | None, sizes: Mapping[str, str]) -> dict[str, Any]:
    """The model of a plan as `retrace` takes it.

    Args:
        plan: The plan.
        name: What ``--model`` names; None for the zoo's model that the plan is of. Code that a plan names is not run.
        sizes: Sizes or arguments that differ from the plan's, as text.

    Raises:
        UnknownNameError: No such model.
        InvalidProblemError: The plan does not say how its model is made, or needs it to be named.
    """
    origin = plan.settings.origin
    if name is None and (not origin.name or ":" in origin.name):
        raise InvalidProblemError(unknown_model(plan))
    name = name or origin.name
    kept = {key: str(value) for key, value in origin.sizes.items()} if name == origin.name else {}
    made, inputs = model_of(name, {**kept, **sizes})
    if isinstance(made, ModelSpec):
        zoo_model = ":" not in name
        return {"model": made, "origin": None if zoo_model else Origin(name, {**kept, **sizes})}
    return {"model": made, "inputs": inputs, "origin": Origin(name, {**kept, **sizes})}


@contextmanager
def _working_folder() -> Iterator[None]:
    """Find modules of the working folder, as ``python -m`` does; a console script does not."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _value(text: str) -> Any:
    """A number, truth value or the like; text where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
