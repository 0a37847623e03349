"""Kinds of values: what an option, or a key of a settings file, may be. No JAX here: help and errors come at once."""

import dataclasses
import difflib
import math
from collections.abc import Callable
from typing import Any, TypeGuard

from bipareto.wording import message, one_of


class Refused(Exception):
    """Wrong input; its text is the one line the user sees."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """`check(name, value)` returns the value or raises `Refused`; `read` makes one from each text of a command line."""

    metavar: str
    check: Callable[[str, Any], Any]
    read: Callable[[str], Any] = str
    many: bool = False

    def parse(self, name: str, texts: list[str]) -> Any:
        values = [self._read(text) for text in texts]
        return self.check(name, values if self.many else values[0])

    def _read(self, text: str) -> Any:
        try:
            return self.read(text)
        except ValueError:
            return text  # which the check refuses, showing it


def whole(least: int = 1, example: int = 100, most: int = 2**31 - 1) -> Kind:
    rule = f"be an integer >= {least}" + (f" and <= {most}" if most < 2**31 - 1 else "")

    def check(name, value):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise refusal(name, rule, value, f"pass a number such as {example}")
        return value

    return Kind("N", check, int)


def number(example: float, *, zero: bool = False, below: float = math.inf) -> Kind:
    """A finite number > 0, or >= 0 with `zero`."""
    rule = "be a finite number " + (">= 0" if zero else "> 0") + (f" and < {below:g}" if below < math.inf else "")

    def check(name, value):
        if not is_number(value) or value < 0 or (value == 0 and not zero) or value >= below:
            raise refusal(name, rule, value, f"pass a number such as {example:g}")
        return float(value)

    return Kind("X", check, float)


def numbers(example: str, low: float = 0.0, *, zero: bool = False) -> Kind:
    """Finite numbers, all > `low`, or >= with `zero`."""
    bound = "" if low == -math.inf else f" >= {low:g}" if zero else f" > {low:g}"

    def check(name, value):
        entries = list(value) if isinstance(value, (list, tuple)) else [value]
        if not entries or not all(is_number(e) and (e > low or (zero and e == low)) for e in entries):
            found = entries[0] if len(entries) == 1 else entries
            raise refusal(name, "be finite numbers" + bound, found, f"pass numbers such as {example}")
        return tuple(float(entry) for entry in entries)

    return Kind("X [X ...]", check, float, many=True)


def word(*choices: str) -> Kind:
    return Kind("NAME", lambda name, value: _one_of(name, value, choices))


def words(*choices: str) -> Kind:
    """Different words, each one of the choices."""

    def check(name, value):
        if not isinstance(value, (list, tuple)) or not value or len({str(entry) for entry in value}) < len(value):
            raise refusal(name, "be different names", value, "pass some of " + ", ".join(choices))
        return tuple(_one_of(name, entry, choices) for entry in value)

    return Kind("NAME [NAME ...]", check, many=True)


def word_or_number(example: float, *choices: str) -> Kind:
    remedy = f"pass a number such as {example:g}, or one of {', '.join(choices)}"

    def check(name, value):
        if isinstance(value, str) and value in choices:
            return value
        if not is_number(value) or value <= 0:
            near = _near(value, choices)
            raise refusal(name, "be a finite number > 0 or a word", value, near or remedy)
        return float(value)

    return Kind("|".join(choices) + "|X", check, float)


def text(metavar: str, rule: str, remedy: str) -> Kind:
    def check(name, value):
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise refusal(name, rule, value, remedy)
        return value

    return Kind(metavar, check)


def problem(*known: str) -> Kind:
    """One of the known names, or where to find a user's own, as file.py:name or module:name."""
    own = text("NAME|FILE.py:NAME|MODULE:NAME", "name a problem", "pass one of " + ", ".join(known) + ", or file.py:name")

    def check(name, value):
        return own.check(name, value) if not isinstance(value, str) or ":" in value else _one_of(name, value, known)

    return Kind(own.metavar, check)


def texts(metavar: str, rule: str, remedy: str) -> Kind:
    one = text(metavar, rule, remedy)

    def check(name, value):
        if not isinstance(value, (list, tuple)) or not value:
            raise refusal(name, rule, value, remedy)
        return tuple(one.check(name, entry) for entry in value)

    return Kind(metavar, check, many=True)


def preference_rows() -> Kind:
    """A number of preferences to spread evenly, the word `focused`, or rows such as 0.2,0.8."""
    remedy = "pass a number such as 9, the word focused, or rows such as 0.2,0.8 0.5,0.5"
    row = numbers("0.2,0.8")

    def check(name, value):
        entries = list(value) if isinstance(value, (list, tuple)) else [value]
        if len(entries) == 1 and (entries[0] == "focused" or _is_count(entries[0])):
            return entries[0]
        if not entries or not all(isinstance(entry, (list, tuple)) for entry in entries):
            found = entries[0] if len(entries) == 1 else entries
            raise refusal(name, "be a number of preferences, a word or rows", found, _near(found, ["focused"]) or remedy)
        return tuple(row.check(f"{name}[{i}]", entry) for i, entry in enumerate(entries))

    def read(token: str) -> Any:
        return [float(entry) for entry in token.split(",")] if "," in token else int(token)

    return Kind("N|focused|R,R,...", check, read, many=True)


def flag() -> Kind:
    def check(name, value):
        if not isinstance(value, bool):
            raise refusal(name, "be true or false", value, "write true or false")
        return value

    return Kind("", check)


def refusal(name: str, rule: str, found: Any, remedy: str) -> Refused:
    shown = repr(found)
    return Refused(message(name, rule, shown if len(shown) <= 200 else shown[:200] + " ...", remedy))


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    try:
        return one_of(name, value, choices)
    except ValueError as error:
        raise Refused(str(error)) from None


def _near(value: Any, choices: Any) -> str:
    near = difflib.get_close_matches(str(value), list(choices), 1)
    return f"did you mean {near[0]!r}?" if near else ""
