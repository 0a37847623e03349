"""Preference vectors: strictly positive, summing to 1; a larger entry asks for a smaller objective."""

import numpy as np

from bipareto.errors import message, positive_number, whole_number


def focused(objectives: int, peak: float = 0.8) -> np.ndarray:
    """[S, S]: row s puts `peak` on objective s and shares the rest equally (the paper's .8/.05 for S = 5)."""
    objectives = whole_number("objectives", objectives, "a preference needs two objectives or more", least=2)
    peak = float(positive_number("peak", peak, "pass a share such as 0.8"))
    if not 1 / objectives <= peak < 1:
        rule = f"lie in [1/{objectives}, 1)"
        raise ValueError(message("peak", rule, peak, "1 would leave nothing for the others, and stall"))
    rest = (1 - peak) / (objectives - 1)
    return np.full((objectives, objectives), rest) + (peak - rest) * np.eye(objectives)
