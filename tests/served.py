"""A small front on a quadratic problem that can be solved on, and a server of it that can be killed.

Run as a program: python served.py FILE serves the front, saves it to FILE whenever a point joins, and prints its address.
"""

import sys

import jax

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


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    from bipareto.report import serve

    serve(front(), save=lambda grown: grown.save(sys.argv[1], x=True), facts={}, steps=int(sys.argv[2]))
