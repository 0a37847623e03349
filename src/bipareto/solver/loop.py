"""The one loop: `solve` runs an algorithm's steps in compiled chunks and says how it ended."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from bipareto.distributed import agree, fetch
from bipareto.errors import message, positive_number, whole_number
from bipareto.layout import Layout
from bipareto.oracles import Oracles, bind, convolves
from bipareto.problem import Problem, SeparableProblem
from bipareto.progress import Progress, Row, Show
from bipareto.shapes import by_shape
from bipareto.solver.conclusion import Ended, conclude
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State
from bipareto.solver.saving import Part, Saver, run_settings, solutions_from, solutions_part, state_arrays, state_from
from bipareto.status import Status, Verdict
from bipareto.store import CorruptFile


def solve(
    problem: Problem | SeparableProblem,
    algorithm: Algorithm,
    x0: PyTree,
    y0: PyTree,
    steps: int = 500,
    *,
    key: Any = None,
    tolerance: float | None = None,
    evaluate_every: int | None = None,
    progress: Show = None,
    callback: Callable[[int, Record], Any] | None = None,
    directory: Any = None,
    resume: bool = False,
    save_every: float = 30.0,
) -> Solution:
    """Take `steps` upper steps of `algorithm` from (x0, y0).

    `key`: needed where the algorithm draws batches; the same key gives the same run. `evaluate_every`: take the
    values of the full data every so many steps (`Solution.evaluations`), beside the estimates in the history.
    `tolerance`: stop where the stationarity gap is at most this. `progress`: a line on standard error (None: on a terminal),
    or a function that gets a `progress.Update` twice a second.
    `callback(done, records)`: called after every compiled chunk with its records (leading axis: step).

    `directory`: a folder for settings, records and a checkpoint every `save_every` seconds. With `resume=True` a run that
    was interrupted there, by whatever, goes on to the very result it would have had; one that ended is read, not run.

    A run that fails ends in that step: `status` and `message` name the stage and the objective, and x, y, values are those
    of the last step that was finite in all its stages.
    """
    steps = whole_number("steps", steps, "pass the number of upper steps")
    remedy = "pass the largest acceptable gap such as 1e-8, or None"
    limit = None if tolerance is None else positive_number("tolerance", tolerance, remedy)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(message("algorithm", "be an algorithm", repr(algorithm), "build one with bp.wc_mhgd(...)"))
    every = None
    if evaluate_every is not None:
        every = whole_number("evaluate_every", evaluate_every, "pass a number of upper steps, or None")
    oracles, state = start(problem, algorithm, x0, y0, key)
    settings = lambda: run_settings(  # noqa: E731
        problem, algorithm, oracles, state, key, steps=steps, tolerance=limit, evaluate_every=every
    )
    with Saver(directory, resume, save_every, settings) as saver, Progress(steps, progress) as line:
        if (found := saver.result(0)) is not None:
            history = saver.history(0, record_shape(algorithm, oracles, state, key))
            return solutions_from(found, oracles, state, [history], [algorithm])[0]
        run = _Run(algorithm, oracles, state, key, limit, steps, every)
        if (found := saver.checkpoint(0)) is not None:
            run.restore(found, saver)
        while run.going:
            records = run.advance()
            saver.records(0, run.done, records)
            if len(records.gap):
                line(run.done, lambda records=records: [Row.of(None, records, run.done)])
                if callback is not None:
                    callback(run.done, records)
            saver.chunk(0, run.snapshot)
        solution = run.solution()
        saver.finish(0, lambda: solutions_part([solution], oracles), solution)
    return solution


def start(problem: Any, algorithm: Algorithm, x0: PyTree, y0: PyTree, key: Any = None) -> tuple[Oracles, State]:
    """Bind the problem to its variables; everything that can be checked before compute starts is checked here."""
    if not isinstance(problem, (Problem, SeparableProblem)):
        raise TypeError(message("problem", "be a Problem or SeparableProblem", repr(problem), "build one with bp.Problem"))
    oracles = bind(problem, x0, y0)
    x, y, *finite = _flattened(oracles.x_layout, oracles.y_layout, x0, y0)
    for name, fine in zip(("x0", "y0"), finite, strict=True):
        if not fine:
            raise ValueError(message(name, "be finite", "NaN or Inf", "start from finite numbers"))
    return oracles, algorithm.init(oracles, x, y, key)


@eqx.filter_jit  # one program, where a GPU would be asked for every leaf
def _flattened(x_layout: Layout, y_layout: Layout, x0: PyTree, y0: PyTree):
    x, y = x_layout.flatten(x0), y_layout.flatten(y0)
    return x, y, jnp.isfinite(x).all(), jnp.isfinite(y).all()


@eqx.filter_jit
def advance(algorithm: Algorithm, oracles: Oracles, state: State, key: Any, tolerance: Any, length: Any, size: int):
    """At most `length` upper steps, fewer where one is stationary or fails; records in a buffer of `size` rows.

    Returns the state, the x of the last step that did not fail, the buffer, how many of its rows count, and the verdict.
    """

    def one(carry):
        done, state, safe_x, buffer, _ = carry
        after, record, verdict = algorithm.step(oracles, state, key)
        failed = verdict.code != 0
        if tolerance is not None:
            verdict = verdict.unless(record.gap <= tolerance, Status.STATIONARY)
        rests = eqx.tree_at(lambda s: s.x, after, jnp.where(verdict.code == 0, after.x, state.x))
        state, safe_x = _where(failed, (state, safe_x), (rests, state.x))
        buffer = jax.tree.map(lambda rows, row: rows.at[done].set(row), buffer, record)
        return done + ~failed, state, safe_x, buffer, verdict

    shapes = record_shape(algorithm, oracles, state, key)
    buffer = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), shapes)
    carry = (jnp.int32(0), state, state.x, buffer, Verdict.fine())
    if size == 1:
        done, state, safe_x, buffer, verdict = _where(length > 0, one(carry), carry)
    else:
        going = lambda carry: (carry[0] < length) & (carry[4].code == 0)  # noqa: E731
        done, state, safe_x, buffer, verdict = jax.lax.while_loop(going, one, carry)
    return state, safe_x, buffer, done, verdict


@by_shape
def record_shape(algorithm: Algorithm, oracles: Oracles, state: State, key: Any) -> Record:
    """Shapes and kinds of the record of one step."""
    return jax.eval_shape(lambda: algorithm.step(oracles, state, key)[1])


@by_shape
def chunk_size(oracles: Oracles, state: State) -> int:
    """Rows of the record buffer: enough to hide the cost of a dispatch, few enough to be small.

    On a CPU a convolution inside a compiled loop loses its fast kernel (20 times slower when measured), so there the steps
    of a problem with convolutions are dispatched one by one.
    """

    def forward(x, y):
        prepared = oracles.prepare(x)
        return oracles.upper(prepared.upper, y)[0], oracles.lower_gradient(prepared.lower, y)

    if jax.default_backend() == "cpu" and convolves(jax.make_jaxpr(forward)(state.x, state.y)):
        return 1
    return int(np.clip(2**22 // oracles.objectives**2, 16, 512))


def next_length(length: int, seconds: float, most: int) -> int:
    """How many steps to take at once: about half a second's, so that progress shows and a failure wastes little."""
    if seconds > 1:
        return max(1, length // 2)
    return min(most, length * (16 if seconds < 0.02 else 4 if seconds < 0.1 else 2 if seconds < 0.25 else 1))


class _Run:
    """The host's side of a run: chunks of steps go out, records come back."""

    def __init__(self, algorithm, oracles, state, key, tolerance, steps, every):
        self.began, self.before = time.perf_counter(), 0.0
        self.algorithm, self.oracles, self.state, self.key = algorithm, oracles, state, key
        self.tolerance, self.steps, self.every = tolerance, steps, every
        self.evaluations = []
        self.safe_x, self.verdict = state.x, Verdict.fine()
        self.done, self.length, self.records = 0, 1, []
        self.size = chunk_size(oracles, state)
        self.compile_seconds = self._compile()

    def _arguments(self, length):
        return self.algorithm, self.oracles, self.state, self.key, self.tolerance, np.int32(length), self.size

    def _compile(self) -> float:
        if self.size > 1:  # no step at all is the cheapest call that compiles, and finds what an earlier run compiled
            jax.block_until_ready(advance(*self._arguments(0)))
        else:
            advance.lower(*self._arguments(1)).compile()  # pyright: ignore[reportFunctionMemberAccess]
        return time.perf_counter() - self.began

    @property
    def going(self) -> bool:
        return self.done < self.steps and int(self.verdict.code) == 0

    def advance(self) -> Record:
        """Run a chunk."""
        began = time.perf_counter()
        if self.every is not None and self.done % self.every == 0:
            self.evaluations.append((self.done, _full_values(self.oracles, self.state.x, self.state.y)))
        pause = self.steps if self.every is None else self.every - self.done % self.every
        length = min(self.length, self.steps - self.done, pause)
        self.state, safe_x, *told = advance(*self._arguments(length))
        buffer, taken, self.verdict = fetch(told)
        if taken:
            self.safe_x = safe_x
        records = jax.tree.map(lambda leaf: leaf[:taken], buffer)
        (seconds,) = agree(time.perf_counter() - began)
        self.length = next_length(self.length, seconds, self.size)
        self.done += int(taken)
        self.records.append(records)
        return records

    @property
    def seconds(self) -> float:
        """Time spent on steps, that before an interruption included."""
        return self.before + time.perf_counter() - self.began - self.compile_seconds

    def snapshot(self) -> Part:
        evaluations = Evaluations.of(self.evaluations)
        more = {"evaluated_steps": evaluations.steps, "evaluated_values": evaluations.values}
        arrays = state_arrays((self.state, self.safe_x, self.verdict))
        return arrays | more, {"done": self.done, "seconds": self.seconds}

    def restore(self, part: Part, saver: Saver) -> None:
        arrays, facts = part
        self.state, self.safe_x, self.verdict = state_from(arrays, (self.state, self.safe_x, self.verdict))
        history = saver.history(0, record_shape(self.algorithm, self.oracles, self.state, self.key))
        self.done, self.records, self.before = len(history.gap), [history], saver.seconds(facts)
        try:
            self.evaluations = list(zip(arrays["evaluated_steps"].tolist(), arrays["evaluated_values"], strict=True))
        except (KeyError, TypeError, ValueError) as error:
            text = message("checkpoint", "hold its evaluations", repr(error), "restore the run directory from a copy")
            raise CorruptFile(text) from error

    def solution(self) -> Solution:
        verdict = self.verdict.status(), int(self.verdict.objective)
        parts = (self.algorithm, self.oracles, self.key, self.state, self.safe_x, *verdict, self.records)
        return conclude(Ended(*parts, self.evaluations, self.seconds, self.compile_seconds))


_full_values = eqx.filter_jit(lambda oracles, x, y: oracles.upper(oracles.prepare(x).upper, y)[0])


def _where(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
