"""What goes into a run, what one step tells, and what comes out."""

import abc
import dataclasses
import importlib
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from bipareto.errors import message
from bipareto.oracles import OracleCounts, Oracles
from bipareto.status import Status, Verdict


class State(eqx.Module):
    """Everything that changes from one upper step to the next; `average`: of the values, where one is kept."""

    step: Int[Array, ""]
    x: Float[Array, " p"]
    y: Array
    dual: Float[Array, "B q"]
    average: Float[Array, " S"]
    memory: Any
    upper: Any


class Record(eqx.Module):
    """What one upper step tells about the point x_k it started from.

    `gap`: min over the simplex of ||sum_s lam_s grad phi_s||^2, the exact stationarity gap. `margin`: min_s 2 r_max <d, grad
    phi_s> - ||d||^2, Lemma 2 holds where it is >= 0. `direction`: ||d||^2. `lower_residual`: ||grad_y g|| at the last lower
    step. `dual_residual`: ||b - H v|| of conjugate gradients, the last term of a Neumann series.

    Weightings that need the values only make one linear solve, so that no Gram matrix of all hypergradients exists: `gram`
    is then [1, 1] = ||d||^2, `gap` its bound ||d||^2 / (sum of weights)^2, and `margin` NaN.
    """

    values: Float[Array, " S"]
    weights: Float[Array, " S"]
    gram: Float[Array, "R R"]
    gap: Float[Array, ""]
    margin: Float[Array, ""]
    direction: Float[Array, ""]
    lower_residual: Float[Array, ""]
    dual_residual: Float[Array, " B"]
    counts: OracleCounts


def total_counts(history: Record) -> OracleCounts:
    """What all steps of a history evaluated."""
    return OracleCounts(*(int(np.sum(count, dtype=np.int64)) for count in history.counts))


class Algorithm(eqx.Module):
    """A method: how its state starts, one upper step, and the values where it stands."""

    @property
    @abc.abstractmethod
    def takes_preference(self) -> bool:
        """Whether the method follows a preference."""

    @abc.abstractmethod
    def prefer(self, preference: Any) -> "Algorithm":
        """The same method with another preference."""

    @property
    @abc.abstractmethod
    def reference(self) -> Any:
        """The point z from which its preference measures the objectives; 0 without one."""

    @property
    @abc.abstractmethod
    def draws(self) -> bool:
        """Whether it draws batches; its oracle counts are then of samples, otherwise of calls on all data."""

    @abc.abstractmethod
    def init(self, oracles: Oracles, x: Array, y: Array, key: Any) -> State:
        """The state before the first step; raises where the settings do not fit the problem."""

    @abc.abstractmethod
    def step(self, oracles: Oracles, state: State, key: Any) -> tuple[State, Record, Verdict]:
        """One upper step; `key` is that of the whole run."""

    @abc.abstractmethod
    def evaluate(self, oracles: Oracles, state: State, key: Any) -> tuple[Float[Array, " S"], Array]:
        """Values of the full data at the state's x, and the lower variables they were taken at."""


class Evaluations(NamedTuple):
    """Values of the full data [E, S] after so many upper steps [E], at the lower variables of the run."""

    steps: np.ndarray
    values: np.ndarray

    @staticmethod
    def of(pairs: list[tuple[int, Any]]) -> "Evaluations":
        return Evaluations(*(np.array([pair[i] for pair in pairs]) for i in range(2)))


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where a run ended. `values` belong to `x` and `y`; `history` is a `Record` of arrays with a leading axis: upper step.

    `oracles` counts what the steps evaluated; the values at the end are taken once more, for the report, and not counted.
    """

    x: PyTree
    y: PyTree
    values: np.ndarray
    status: Status
    message: str
    history: Record
    oracles: OracleCounts
    evaluations: Evaluations
    seconds: float
    compile_seconds: float
    made: tuple[Any, Algorithm] | None = dataclasses.field(default=None, repr=False, compare=False)

    def certify(self, constants: Any = None) -> Any:
        """What can be proved of the end and of the steps: `theory.certify` on the problem and algorithm of this run."""
        if self.made is None:
            remedy = "call bp.theory.certify(problem, algorithm, solution)"
            raise ValueError(message("solution", "know its problem to be certified", "one read from a file", remedy))
        # The theory judges runs and so is built on them: only when asked does a run call it.
        return importlib.import_module("bipareto.theory").certify(*self.made, self, constants)

    def __str__(self) -> str:
        values = " ".join(f"{value:.6g}" for value in self.values)
        gap = f"{self.history.gap[-1]:.3e}" if len(self.history.gap) else "unknown"
        return f"{self.status.name} after {len(self.history.gap)} steps: values [{values}], gap {gap}; {self.message}"
