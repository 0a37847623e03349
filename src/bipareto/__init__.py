"""Multi-objective bilevel learning: several upper objectives over one lower-level training problem."""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bipareto.public import *  # noqa: F403

__version__ = "0.1.0"

_FUNCTIONS_NAMED_LIKE_THEIR_MODULE = ("hypergradient",)


class _Package(ModuleType):
    """Public names are loaded when one is first used: the command line's help and errors need not wait for JAX."""

    def __getattr__(self, name: str) -> Any:
        dunder = name.startswith("__") and name != "__all__"
        if not dunder and name not in _FUNCTIONS_NAMED_LIKE_THEIR_MODULE and find_spec(f"bipareto.{name}"):
            return importlib.import_module(f"bipareto.{name}")
        public = None if dunder else importlib.import_module("bipareto.public")
        if public is None or name not in vars(public):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__.update({known: vars(public)[known] for known in public.__all__})
        return vars(public)[name]

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets every submodule as an attribute, which must not hide the function of the same name.
        if not (name in _FUNCTIONS_NAMED_LIKE_THEIR_MODULE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *importlib.import_module("bipareto.public").__all__})


sys.modules[__name__].__class__ = _Package
