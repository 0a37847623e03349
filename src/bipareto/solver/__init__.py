from bipareto.solver.conclusion import Ended, conclude
from bipareto.solver.loop import advance, chunk_size, solve, start
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State

__all__ = [
    "Algorithm",
    "Ended",
    "Evaluations",
    "Record",
    "Solution",
    "State",
    "advance",
    "chunk_size",
    "conclude",
    "solve",
    "start",
]
