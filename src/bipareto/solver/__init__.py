from bipareto.solver.loop import advance, chunk_size, solve, start
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State

__all__ = ["Algorithm", "Evaluations", "Record", "Solution", "State", "advance", "chunk_size", "solve", "start"]
