"""A problem ready to run: what the command line and the live page work on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxtyping import PyTree

from bipareto.errors import message
from bipareto.problem import Problem, SeparableProblem
from bipareto.solver import Algorithm


@dataclasses.dataclass(frozen=True)
class Setup:
    """A problem, where it starts, what its objectives are called, and how it is best solved.

    `defaults`: settings by the names of the command line's options, such as {"step_size": 0.5, "steps": 200}; a settings
    file and flags come before them. `algorithm`: one built in Python, used as it stands unless another is named.
    """

    problem: Problem | SeparableProblem
    x0: PyTree
    y0: PyTree
    names: tuple[str, ...] | None = None
    algorithm: Algorithm | None = None
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        rules = (
            ("problem", (Problem, SeparableProblem), "be a Problem or SeparableProblem", "build one with bp.Problem"),
            ("algorithm", (Algorithm, type(None)), "be an algorithm or None", "build one with bp.wc_mhgd(...)"),
            ("defaults", Mapping, "be a dict of settings", "pass settings such as {'step_size': 0.5}"),
        )
        for name, kind, rule, remedy in rules:
            if not isinstance(getattr(self, name), kind):
                raise TypeError(message(name, rule, repr(getattr(self, name)), remedy))
