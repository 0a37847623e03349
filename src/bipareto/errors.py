"""Errors are part of the interface: every message gives parameter, rule, what was found, and a remedy."""

import math
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from bipareto.wording import message, one_of

__all__ = ["flag", "message", "one_of", "positive_number", "positive_vector", "reference_point", "whole_number"]


def positive_number(parameter: str, value: Any, remedy: str, *, zero: bool = False) -> Any:
    """A finite real scalar > 0 (>= 0 with `zero`), as an array so that compiled programs take it as an argument."""
    rule = "be a number " + (">= 0" if zero else "> 0")
    if isinstance(value, Tracer):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, np.ndarray, np.generic, jax.Array)):
        raise TypeError(message(parameter, rule, repr(value), remedy))
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iuf":
        raise ValueError(message(parameter, rule, f"an array of shape {array.shape} and dtype {array.dtype}", remedy))
    if not math.isfinite(array) or array < 0 or (array == 0 and not zero):
        raise ValueError(message(parameter, rule, array.item(), remedy))
    return array.astype(np.float64)


def whole_number(parameter: str, value: Any, remedy: str, *, least: int = 1) -> int:
    rule = f"be an integer >= {least}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(message(parameter, rule, repr(value), remedy))
    if value < least:
        raise ValueError(message(parameter, rule, value, remedy))
    return int(value)


def flag(parameter: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(message(parameter, "be True or False", repr(value), "pass a bool"))
    return value


def reference_point(reference: Any, objectives: int) -> np.ndarray:
    """z: a finite number for all objectives or one for each, as a vector [S]."""
    remedy = "pass values below those that can be reached, in the objectives' units"
    try:
        array = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(message("reference", "be a number or a vector [S]", repr(reference), remedy)) from None
    if array.shape not in ((), (objectives,)):
        rule = f"be a number or a vector of {objectives} values"
        raise ValueError(message("reference", rule, f"shape {array.shape}", remedy))
    if not np.isfinite(array).all():
        raise ValueError(message("reference", "be finite", array, remedy))
    return np.broadcast_to(array, (objectives,)).copy()


def positive_vector(parameter: str, value: Any, remedy: str, *, zero: bool = False, normalise: bool = True) -> Any:
    """A finite vector with entries > 0 (>= 0 and one > 0 with `zero`), scaled to sum 1 with `normalise`."""
    if isinstance(value, Tracer):
        return value
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(message(parameter, "be a vector of numbers", repr(value), remedy)) from None
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(message(parameter, "be a vector [S]", f"shape {vector.shape}", remedy))
    rule = "be finite, >= 0 and not all zero" if zero else "be strictly positive"
    wrong = ~np.isfinite(vector) | (vector < 0) | ((vector == 0) & (not zero))
    if wrong.any() or vector.sum() == 0:
        index = int(np.argmax(wrong))
        raise ValueError(message(parameter, rule, f"{parameter}[{index}] = {vector[index]}", remedy))
    return vector / vector.sum() if normalise else vector
