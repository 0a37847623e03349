"""Float64, one device, and shapes checked at every call of the library."""

import gc
import os
import pathlib
import shutil

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


@pytest.fixture(scope="module")
def chromium():
    """A browser; tests that need one are skipped where there is none (`make browser` installs it)."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine: run make browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A tab that remembers what it complained about and whom it asked."""

    def __init__(self, browser, width=1280):
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(20_000)
        self.complaints, self.asked = [], set()
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.asked.add(request.url))


@pytest.fixture
def tab(chromium):
    """Opens tabs; whatever a page logs, throws or pops up fails the test."""
    opened = []

    def open_tab(width=1280):
        opened.append(Watched(chromium, width))
        return opened[-1]

    yield open_tab
    for one in opened:
        one.page.close()
    assert [one.complaints for one in opened] == [[] for _ in opened]
