"""How errors read. Nothing here needs JAX or numpy, so that the command line answers at once."""

import difflib
from collections.abc import Iterable
from typing import Any


def message(parameter: str, rule: str, found: object, remedy: str) -> str:
    return f"`{parameter}` must {rule}; found {found}; {remedy}"


def one_of(parameter: str, value: Any, choices: Iterable[str | None]) -> Any:
    """One of a few words (or None); the error lists them and suggests the nearest."""
    known = list(choices)
    if (value is None or isinstance(value, str)) and value in known:
        return value
    words = [word for word in known if word is not None]
    near = difflib.get_close_matches(str(value), words, 1)
    remedy = f"did you mean {near[0]!r}?" if near else "pass one of these"
    raise ValueError(message(parameter, "be one of " + ", ".join(map(repr, known)), repr(value), remedy))
