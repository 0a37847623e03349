"""Before the first use of JAX: precision, memory, the cluster, and where compiled programs are kept for the next call."""

import ctypes
import hashlib
import os
import pathlib
import platform
import tempfile
from typing import Any

import jax

from bipareto import distributed
from bipareto.cli.kinds import refusal

SWITCH = "BIPARETO_COMPILE_CACHE"


def prepare(x64: bool, join: bool = False) -> None:
    if x64:
        jax.config.update("jax_enable_x64", True)
    folder = cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    keep_memory()
    if join:
        distributed.start()


def keep_memory() -> None:
    """Where the C library is GNU's: freed memory stays with the process.

    A step of a problem with convolutions is one program call on a CPU, whose hundreds of megabytes would come as fresh pages
    every time (7 % of the FC100 step).
    """
    mmap_max, trim_threshold = -4, -1  # numbers of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)


def cache_folder() -> pathlib.Path | None:
    """A folder for programs of this kind of processor; None where none can be written, or it is turned off."""
    named = os.environ.get(SWITCH, "")
    if named.lower() in ("0", "off", "no", "false"):
        return None
    usual = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "bipareto" / "compiled"
    folder = (pathlib.Path(named) if named else usual) / _processor()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home
        return None


def _processor() -> str:
    """A home may be shared by machines that cannot run each other's programs."""
    table = pathlib.Path("/proc/cpuinfo")
    flags = (
        [line for line in table.read_text().splitlines() if line.startswith(("flags", "Features"))] if table.exists() else []
    )
    return f"{platform.machine()}-{hashlib.sha256((flags or [platform.processor()])[0].encode()).hexdigest()[:12]}"


def devices(count: int | None) -> list[Any] | None:
    """The first so many devices."""
    found = jax.devices()
    if count is not None and count > len(found):
        remedy = f"set JAX_NUM_CPU_DEVICES={count} to divide a CPU" if found[0].platform == "cpu" else "lower it"
        raise refusal("--devices", f"be at most the {len(found)} there are", count, remedy)
    return None if count is None else found[:count]


def versions() -> dict[str, str]:
    import bipareto

    device = jax.devices()[0]
    return {
        "bipareto": bipareto.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": f"{jax.device_count()} x {device.device_kind}",
        "system": f"{platform.system()} {platform.machine()}",
    }
