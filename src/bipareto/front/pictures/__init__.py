"""Fronts as pictures, one kind per file; figures of their own, so that no backend or state of pyplot is touched."""

import inspect
from typing import TYPE_CHECKING, Any

from bipareto.errors import message, one_of

try:
    import matplotlib as matplotlib
except ImportError:
    text = message("matplotlib", "be installed for pictures", "no such package", "pip install matplotlib")
    raise ModuleNotFoundError(text) from None

from bipareto.front.pictures.convergence import convergence
from bipareto.front.pictures.parallel import parallel
from bipareto.front.pictures.radar import radar
from bipareto.front.pictures.scatter import scatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bipareto.front.front import Front

KINDS = {"parallel": parallel, "radar": radar, "scatter": scatter, "convergence": convergence}


def draw(front: "Front", kind: Any, options: dict[str, Any]) -> "Figure":
    picture = KINDS[one_of("kind", kind, KINDS)]
    known = list(inspect.signature(picture).parameters)[1:]
    for name, value in options.items():
        if name not in known:
            takers = [other for other, maker in KINDS.items() if name in inspect.signature(maker).parameters]
            remedy = f"it belongs to {', '.join(takers)}" if takers else "see Front.plot"
            rule = f"be an option of kind={kind!r} (those are {', '.join(known)})"
            raise TypeError(message(name, rule, f"{name}={value!r}", remedy))
    return picture(front, **options)
