from bipareto.store.directory import NotSaved, Position, RunDirectory
from bipareto.store.files import CorruptFile, export, from_plain, jsonable, pack, to_plain, unpack, write_whole
from bipareto.store.settings import describe, difference, environment, program
from bipareto.store.signals import Interrupts

__all__ = [
    "CorruptFile",
    "Interrupts",
    "NotSaved",
    "Position",
    "RunDirectory",
    "describe",
    "difference",
    "environment",
    "export",
    "from_plain",
    "jsonable",
    "pack",
    "program",
    "to_plain",
    "unpack",
    "write_whole",
]
