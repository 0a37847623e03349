"""Float64, one device, and shapes checked at every call of the library."""

import gc
import os
import pathlib

import jax
import pytest
from jaxtyping import install_import_hook

# Most of the time goes into compiling small programs, where XLA's newer CPU code generator takes three times as long.
# Users get that one: the processes killed in test_store.py and the promises of test_simplex.py keep it.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1")
jax.config.update("jax_enable_x64", True)
install_import_hook("bipareto", "beartype.beartype")
DATA = pathlib.Path(os.environ.get("BIPARETO_DATA") or pathlib.Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture(autouse=True)
def release_compiled_programs():
    """Every compiled program holds memory maps, of which Linux grants a process 65,530; then the compiler aborts."""
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 25_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def data_folder():
    """The folder with the published files; tests that need them are skipped without it."""
    if not (DATA / "mnist").is_dir():
        pytest.skip(f"MNIST and FC100 are not in {DATA}: set BIPARETO_DATA to their folder")
    return DATA
