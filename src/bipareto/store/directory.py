"""A run on the disk: its settings, its records line by line, checkpoints to go on from, results to keep."""

import fcntl
import hashlib
import json
import os
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bipareto.distributed import from_first, is_first
from bipareto.errors import message
from bipareto.store.files import CorruptFile, pack, sync_folder, unpack, write_whole
from bipareto.store.settings import difference, environment, refuse_changes

Part = tuple[dict[str, np.ndarray], dict[str, Any]]


class NotSaved(OSError):
    """The disk refused; what was saved before is whole. `result`: what the run found, where it had ended."""

    result: Any = None


class Position(NamedTuple):
    """Where a stored run stands: the batches that ended, the state inside the next one, and the records up to there."""

    results: list[Part]
    checkpoint: Part | None
    records: list[dict[str, Any]]


class RunDirectory:
    """Process 0 reads and writes; the others are told. Records are on the disk before the checkpoint that counts them."""

    def __init__(self, path: Any, settings: dict[str, Any], resume: bool):
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(message("directory", "be a path", repr(path), "pass a folder such as 'runs/first'"))
        self.path = pathlib.Path(path)
        self.settings = settings
        self._lock = self._records = None
        self._hash, self._bytes, self._serial = hashlib.sha256(), 0, 0
        checkpoint, records, *results = from_first(lambda: self._open(resume))
        parts = [unpack(data, self.path / _result(i)) for i, data in enumerate(results)]
        state = unpack(checkpoint, self.path) if checkpoint else None
        self.position = Position(parts, state, _lines(records, self.path))

    def append(self, lines: Iterable[str]) -> None:
        """Add records, one JSON object per line; they count from the next `save` or `finish` on."""
        if is_first():
            self._pending.append("".join(f"{line}\n" for line in lines).encode())

    def save(self, batch: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
        """A checkpoint inside a batch; the last two are kept."""
        from_first(lambda: self._write(self._next_checkpoint(), batch, arrays, facts))

    def finish(self, batch: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
        """The result of a batch."""
        from_first(lambda: self._write(_result(batch), batch, arrays, facts))

    def close(self) -> None:
        for file in (self._records, self._lock):
            if file is not None:
                file.close()

    def _open(self, resume: bool) -> list[bytes]:
        self._pending: list[bytes] = []
        try:
            self._enter()
            if not self._known(resume):
                text = {"settings": self.settings, "environment": environment()}
                write_whole(self.path / "settings.json", json.dumps(text, indent=1).encode())
            return self._recall()
        except OSError as error:
            self.close()
            if error.errno is None:  # a message of our own
                raise
            remedy = "pass a folder that can be written, in a folder that exists"
            raise NotSaved(message("directory", "be a folder for the run", error, remedy)) from error
        except BaseException:
            self.close()
            raise

    def _enter(self) -> None:
        self.path.mkdir(exist_ok=True)
        self._lock = open(self.path / ".lock", "wb")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "wait for the other run, or use another directory"
            raise OSError(message("directory", "be used by one run at a time", f"{self.path} in use", remedy)) from None
        for leftover in self.path.glob(".*.tmp"):
            leftover.unlink()

    def _known(self, resume: bool) -> bool:
        """Whether the folder holds this run already; raises where it holds something else."""
        file = self.path / "settings.json"
        if not file.exists():
            others = sorted(entry.name for entry in self.path.iterdir() if entry.name != ".lock")
            if others:
                rule, remedy = "be empty or hold a run", "pass a new folder"
                raise ValueError(message("directory", rule, f"{others[0]} in {self.path}", remedy))
            return False
        if not resume:
            remedy = "pass resume=True to go on with it, or another directory"
            raise ValueError(message("directory", "be empty for a new run", f"a run in {self.path}", remedy))
        try:
            stored = json.loads(file.read_text())
            old, where = dict(stored["settings"]), dict(stored["environment"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            remedy = "restore it from a copy, or use another directory"
            raise CorruptFile(message(str(file), "be the settings of a run", repr(error)[:200], remedy)) from error
        moved = difference(where, environment())
        if moved:
            warnings.warn(f"{self.path} goes on elsewhere, so not to the last bit: {'; '.join(moved)}", stacklevel=2)
        if where.get("jax") != environment()["jax"]:  # another version may write the same program differently
            old["program"] = self.settings["program"]
        refuse_changes(self.path, old, self.settings)
        return True

    def _recall(self) -> list[bytes]:
        """The newest consistent state; records beyond it are forgotten."""
        file = self.path / "records.jsonl"
        written = file.read_bytes() if file.exists() else b""
        results = []
        while (self.path / _result(len(results))).exists():
            name = self.path / _result(len(results))
            results.append(name.read_bytes())
            self._position(unpack(results[-1], name)[1], written, name)
        checkpoint = self._newest(len(results), written)
        self._records = open(file, "ab", buffering=0)  # noqa: SIM115
        self._records.truncate(self._bytes)
        return [checkpoint, written[: self._bytes], *results]

    def _newest(self, batch: int, written: bytes) -> bytes:
        """The newest readable checkpoint inside a batch, b"" where it has none yet."""
        numbered = {int(n.stem[11:]): n for n in self.path.glob("checkpoint-*.npz") if n.stem[11:].isdecimal()}
        self._serial = max(numbered, default=0)
        problem = None
        for name in (numbered[serial] for serial in sorted(numbered, reverse=True)):
            data = name.read_bytes()
            try:
                facts = unpack(data, name)[1]
                if not isinstance(facts.get("batch"), int):
                    raise CorruptFile(message(str(name), "be a checkpoint", sorted(facts), "delete it"))
                if facts["batch"] != batch:
                    return b""
                self._position(facts, written, name)
                return data
            except CorruptFile as error:
                problem = error
                warnings.warn(f"an older checkpoint is used: {error}", stacklevel=2)
        if problem is not None:
            raise problem
        return b""

    def _position(self, facts: dict[str, Any], written: bytes, name: pathlib.Path) -> None:
        count, digest = facts.get("record_bytes"), facts.get("record_hash")
        if not isinstance(count, int) or not 0 <= count <= len(written):
            found = f"{len(written)} bytes where {name.name} counts {count}"
            raise CorruptFile(message(str(self.path / "records.jsonl"), "be whole", found, "restore it from a copy"))
        total = hashlib.sha256(written[:count])
        if total.hexdigest() != digest:
            found = f"another content than {name.name} knows"
            raise CorruptFile(message(str(self.path / "records.jsonl"), "be unchanged", found, "restore it from a copy"))
        self._hash, self._bytes = total, count

    def _next_checkpoint(self) -> str:
        self._serial += 1
        return f"checkpoint-{self._serial:08d}.npz"

    def _write(self, name: str, batch: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> list[bytes]:
        try:
            self._write_records()
            where = {"batch": batch, "record_bytes": self._bytes, "record_hash": self._hash.hexdigest()}
            write_whole(self.path / name, pack(arrays, {**facts, **where}))
            for old in sorted(self.path.glob("checkpoint-*.npz"))[:-2]:
                old.unlink()
        except OSError as error:
            remedy = "make room, then call again with resume=True: it goes on from the last checkpoint"
            raise NotSaved(message("directory", f"take what is saved in {self.path}", error, remedy)) from error
        return []

    def _write_records(self) -> None:
        assert self._records is not None
        data = b"".join(self._pending)
        written = 0
        while written < len(data):
            written += self._records.write(data[written:])
        os.fsync(self._records.fileno())
        if not self._bytes:
            sync_folder(self.path)
        self._hash.update(data)
        self._bytes += len(data)
        self._pending = []


def _result(batch: int) -> str:
    return f"result-{batch:05d}.npz"


def _lines(data: bytes, path: pathlib.Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in data.splitlines()]
        if all(isinstance(line, dict) for line in lines):
            return lines
        raise ValueError("a line that is no table")
    except (ValueError, RecursionError) as error:
        text = message(str(path / "records.jsonl"), "hold one JSON object per line", error, "restore it from a copy")
        raise CorruptFile(text) from error
