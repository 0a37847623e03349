"""Lower-level solvers: warm-started descent on g(x, .), and what `step_size` may be."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from bipareto.errors import message, positive_number, whole_number


class PlainStep(eqx.Module):
    """Gradient descent, -size * gradient. Its size is an argument of the compiled program, not part of it."""

    size: Any

    def init(self, params):
        return ()

    def update(self, gradient, state, params=None):
        return -jnp.asarray(self.size, gradient.dtype) * gradient, state


class ScheduledStep(eqx.Module):
    """Gradient descent with a size that depends on the step count."""

    size: Callable

    def init(self, params):
        return jnp.int32(0)

    def update(self, gradient, state, params=None):
        return -jnp.asarray(self.size(state), gradient.dtype) * gradient, state + 1


Step = PlainStep | ScheduledStep | optax.GradientTransformation


def as_step(parameter: str, step_size: Any) -> Step:
    """A number, an optax schedule (step count -> size) or an optax transformation, as something with `init` and `update`."""
    if isinstance(step_size, optax.GradientTransformation):
        return step_size
    remedy = "pass a float, an optax schedule or an optax transformation such as optax.adam(1e-3)"
    if not callable(step_size):
        return PlainStep(positive_number(parameter, step_size, remedy))
    try:
        size = jax.eval_shape(step_size, jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as error:
        found = f"{step_size!r}, which fails with {type(error).__name__}: {error}"
        raise TypeError(message(parameter, "map a step count to a number", found, remedy)) from error
    if getattr(size, "shape", None) != ():
        raise TypeError(message(parameter, "map a step count to a number", f"a result {size}", remedy))
    return ScheduledStep(step_size)


class Decaying(eqx.Module):
    """A schedule: size / (k + 1)^power at step k = 0, 1, ... Its numbers are arguments of the compiled program."""

    size: Any
    power: Any

    def __init__(self, size: Any = 0.1, power: Any = 0.5):
        self.size = positive_number("size of Decaying", size, "pass the size of the first step")
        self.power = positive_number("power of Decaying", power, "1/2 and 3/4 are common, 0 is constant", zero=True)

    def __call__(self, count):
        return self.size / (count + 1.0) ** self.power


def as_schedule(parameter: str, size: Any) -> Callable:
    """A number or an optax schedule (step count -> number), as a schedule."""
    step = as_step(parameter, size)
    if isinstance(step, PlainStep):
        return Decaying(step.size, 0.0)
    if isinstance(step, ScheduledStep):
        return step.size
    remedy = "pass a float, or a schedule such as bp.Decaying(0.1, 0.5)"
    raise TypeError(message(parameter, "be a number or a schedule", "an optax transformation", remedy))


class Path(eqx.Module):
    """The end y^D of a lower descent, and ||grad_y g(x, y^t)|| at its first, middle and last step."""

    end: Array
    first: Float[Array, ""]
    middle: Float[Array, ""]
    last: Float[Array, ""]

    @property
    def starts_finite(self) -> Bool[Array, ""]:
        return jnp.isfinite(self.first)

    @property
    def overshot(self) -> Bool[Array, ""]:
        """The iterates blew up, or their gradients grew a thousandfold and still grow.

        Below 2/L gradient norms of plain descent on a convex function never grow, so neither sign appears there. The floor
        keeps rounding noise at a converged warm start from looking like growth.
        """
        floor = jnp.sqrt(jnp.finfo(self.last.dtype).eps)
        grew = (self.last > 1e3 * self.first) & (self.last > 10 * self.middle) & (self.last > floor)
        return self.starts_finite & (grew | ~jnp.isfinite(self.last) | ~jnp.isfinite(self.end).all())


class GradientDescent(eqx.Module):
    """y^{t+1} = y^t - alpha grad_y g(x, y^t), t = 0 ... D-1, from the y it is given (Algorithm 1, lines 3-6).

    `step_size`: a float, an optax schedule or an optax transformation; its state starts anew at every upper step.
    """

    optimizer: Step
    steps: int = eqx.field(static=True)

    def __init__(self, step_size: Any = 0.1, steps: int = 32):
        self.optimizer = as_step("lower_step_size", step_size)
        self.steps = whole_number("lower_steps", steps, "take at least one lower step per upper step")

    def __call__(self, gradient: Callable[[Array, Array], Array], y: Array) -> Path:
        """`gradient(y, t)` is the gradient of the t-th step."""

        def step(carry, _):
            t, y, state, first, middle, _ = carry
            slope = gradient(y, t)
            norm = jnp.sqrt(jnp.sum(slope**2))
            first, middle = jnp.where(t == 0, norm, first), jnp.where(t == self.steps // 2, norm, middle)
            update, state = self.optimizer.update(slope, state, y)
            return (t + 1, y + update, state, first, middle, norm), None

        zero = jnp.zeros((), y.dtype)
        start = (jnp.int32(0), y, self.optimizer.init(y), zero, zero, zero)
        # A GPU spends most of a tiny step on launching it; unrolling lets several steps share one launch.
        unroll = 1 if jax.default_backend() == "cpu" else min(8, self.steps)
        (_, end, _, *norms), _ = jax.lax.scan(step, start, length=self.steps, unroll=unroll)
        return Path(end, *norms)
