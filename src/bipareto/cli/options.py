"""Options of a command: fields of frozen dataclasses that tyro reads through their kinds."""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Annotated, Any

import tyro

from bipareto.cli.kinds import Kind, flag


@dataclasses.dataclass(frozen=True)
class Option:
    """What a field may hold and its help; `stored`: whether it is part of the settings (and so allowed in a file)."""

    kind: Kind
    help: str
    stored: bool = True
    positional: bool = False


@typing.dataclass_transform(frozen_default=True)
def command(cls: type) -> Any:
    """A frozen dataclass whose fields tyro reads through their kinds, each bound to its flag so that errors name it."""
    for name, hint in list(vars(cls).get("__annotations__", {}).items()):
        option = hint.__metadata__[0]
        markers = (tyro.conf.Positional,) if option.positional else ()
        shown = tyro.conf.arg(help=option.help, help_behavior_hint="", metavar=option.kind.metavar or None)
        if hint.__origin__ is bool:
            cls.__annotations__[name] = Annotated[hint, shown, tyro.conf.FlagCreatePairsOff]
        else:
            cls.__annotations__[name] = Annotated[hint, _spec(flag_name(name, option), option.kind), shown, *markers]
    return dataclasses.dataclass(frozen=True)(cls)


def flag_name(name: str, option: Option) -> str:
    return name.upper() if option.positional else "--" + name.replace("_", "-")


@functools.cache
def options(cls: type) -> Mapping[str, Option]:
    """The option of every field."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(cls)}


def _spec(name: str, kind: Kind) -> Any:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*" if kind.many else 1,
        metavar=kind.metavar,
        instance_from_str=lambda texts: kind.parse(name, texts),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [] if value is None else [str(value)],
    )


def switch(help: str, stored: bool = False) -> Option:
    return Option(flag(), help, stored)
