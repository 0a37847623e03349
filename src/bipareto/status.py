"""How a run ended, and the check that finds out inside a compiled step."""

import enum
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class Status(enum.Enum):
    """Each value is what to tell the user: what happened, then what to do about it."""

    COMPLETED = "all steps were taken; solve again from the result with more steps if the gap is still too large"
    STATIONARY = "the stationarity gap fell below `tolerance`"
    UPPER_OVERSHOT = "the objectives and the gap grew a thousandfold: the upper steps overshoot; lower `step_size`"
    LOWER_OVERSHOT = "the lower-level steps grew instead of settling; lower `lower_step_size` (it must be below 2/L)"
    NOT_STRONGLY_CONVEX = (
        "conjugate gradients met a direction of curvature <= 0: the lower level is not strongly convex at this point; "
        "add a ridge term in y to `lower`, or take more `lower_steps`"
    )
    NEUMANN_DIVERGED = "the Neumann series grows: its step is above 2/L; lower the `step_size` of `Neumann`"
    NON_FINITE_PREPARATION = "`prepare` returned NaN or Inf; check the prepared features and lower `step_size`"
    NON_FINITE_LOWER = "the gradient of `lower` is NaN or Inf; check `lower`, its data and `y0`"
    NON_FINITE_VALUE = "`upper` returned NaN or Inf; check `upper` and its data (log of 0, division by 0)"
    NON_FINITE_UPPER_GRADIENT = "a gradient of `upper` is NaN or Inf; check `upper` (sqrt or norm at 0, where-branches)"
    NON_FINITE_DUAL = "the linear solve H v = grad_y f gave NaN or Inf; check second derivatives of `lower`"
    NON_FINITE_HYPERGRADIENT = "the hypergradient is NaN or Inf; check derivatives of `lower` and `prepare` in x"
    NON_FINITE_WEIGHTS = "the weights are NaN or Inf; check the scale of the objectives and `u`"
    NON_FINITE_STEP = "the step in x gave NaN or Inf; lower `step_size`"
    ADJOINT_DIVERGED = "the steps of the adjoint v grow: they must be below 2/L; lower the adjoint's step size"

    @property
    def code(self) -> int:
        return list(Status).index(self)

    @staticmethod
    def of(code: Any) -> "Status":
        """The status of a code; KeyError for one that no status has."""
        return dict(enumerate(Status))[int(code)]

    @property
    def failed(self) -> bool:
        return self not in (Status.COMPLETED, Status.STATIONARY)


class Verdict(eqx.Module):
    """The first thing that went wrong: a status code (0: nothing) and the objective it concerns (-1: no single one)."""

    code: Int[Array, ""]
    objective: Int[Array, ""]

    @staticmethod
    def fine() -> "Verdict":
        return Verdict(jnp.int32(0), jnp.int32(-1))

    def unless(self, bad: Bool[Array, ""] | Bool[Array, " S"], status: Status) -> "Verdict":
        """Keep an earlier verdict; otherwise `status` if anything is bad, naming the first bad row of a vector.

        Where all of several rows are bad no single objective is to blame: they share the cause, or reverse-mode autodiff
        carried one row's NaN into the others (0 * NaN).
        """
        shared = jnp.all(bad) if bad.size > 1 else jnp.bool_(bad.ndim == 0)
        first = jnp.where(shared, -1, jnp.argmax(bad)).astype(jnp.int32)
        here = jnp.any(bad) & (self.code == 0)
        return Verdict(jnp.where(here, jnp.int32(status.code), self.code), jnp.where(here, first, self.objective))

    def status(self) -> Status:
        return Status.of(self.code)


def rows_not_finite(*trees_or_rows: Array) -> Bool[Array, " S"]:
    """Which rows (leading axis) hold a NaN or Inf in any of the arrays."""
    bad = [~jnp.isfinite(array).reshape(array.shape[0], -1).all(axis=1) for array in trees_or_rows]
    return jnp.stack(bad).any(axis=0)
