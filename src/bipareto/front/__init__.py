from bipareto.front.evolution import evolutionary
from bipareto.front.explore import explore
from bipareto.front.front import Front

__all__ = ["Front", "evolutionary", "explore"]
