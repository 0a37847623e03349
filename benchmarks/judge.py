"""Rows of the benchmarks' table: numbers written for people, against their aims."""

from typing import NamedTuple


class Row(NamedTuple):
    """`met` is None where there is no aim or nothing to judge; `missed`: by how much and why."""

    group: str
    what: str
    measured: str
    aim: str = ""
    met: bool | None = None
    missed: str = ""


class Aim(NamedTuple):
    bound: float
    unit: str = ""
    least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.bound:g}{self.unit}"


class Judge:
    """Writes numbers, bold where they miss the aim, and remembers by which share they do."""

    def __init__(self):
        self.found: list[tuple[float, Aim]] = []
        self.incomplete = False  # something could not be measured

    def __call__(self, value: float, aim: Aim, text: str = "") -> str:
        value = value if text else round(value, 2)
        excess = 1 - value / aim.bound if aim.least else value / aim.bound - 1
        self.found.append((excess, aim))
        text = text or ratio(value)
        return f"**{text}**" if excess > 0 else text

    @property
    def met(self) -> bool:
        return all(excess <= 0 for excess, _ in self.found)

    def verdict(self, why: str) -> tuple[bool | None, str]:
        """Whether all aims were met, as far as that is known, and the worst miss."""
        excess, aim = max(self.found, key=lambda found: found[0], default=(0.0, None))
        if aim is None or excess <= 0:
            return None if aim is None or self.incomplete else True, ""
        return False, f"{100 * excess:.0f} % {'short' if aim.least else 'over'}" + (f": {why}" if why else "")


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def two(value: float) -> str:
    """Two significant digits, without an exponent."""
    return "< 0.001" if 0 < value < 0.001 else f"{float(f'{value:.2g}'):,.15g}"
