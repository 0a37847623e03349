"""A small front on a quadratic problem that can be solved on, and an ear for what its server tells."""

import contextlib
import json

import bipareto as bp
import quadratics
from bipareto.front.front import Recipe

NAMES = ("loss <script>alert(1)</script>", "energy & heat [J]", "delay [ms]")
PREFERENCES = bp.preferences.focused(3, 0.6)
STEPS = 60


def front(names=NAMES):
    """Three solves that share one compiled program, with the recipe for more."""
    one = quadratics.pick(quadratics.draw(1, seed=3), 0)
    problem = quadratics.problem(one)
    algorithm = bp.wc_mhgd([0.2, 0.3, 0.5], step_size=0.05, lower_step_size=1 / float(one.L), lower_steps=10)
    solved = [[bp.solve(problem, algorithm.prefer(r), one.x, one.y, STEPS)] for r in PREFERENCES]
    return bp.Front(PREFERENCES, solved, names=names, recipe=Recipe(problem, algorithm, STEPS, None, None))


@contextlib.contextmanager
def listening(client):
    """Hears events from now on; yields what waits for the next of a kind."""
    with client.stream("GET", "/api/events") as answer:
        lines = answer.iter_lines()

        def until(kind):
            while next(lines) != f"event: {kind}":
                pass
            return json.loads(next(lines).removeprefix("data: "))

        assert until("idle") == {}
        yield until
