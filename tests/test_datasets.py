"""Data files: found where they may lie, downloaded from a local server, refused when broken or hostile; never made up."""

import contextlib
import gzip
import hashlib
import http.server
import importlib
import io
import os
import sys
import tarfile
import threading
import time
import zipfile

import numpy as np
import pytest

from bipareto.datasets import download, fc100, mnist
from bipareto.datasets.arrays import LIMIT, read_idx, read_npz
from bipareto.datasets.fc100 import PARTS, RECORD, SUPERCLASS, read_archive
from bipareto.datasets.files import File, Source

MNIST = importlib.import_module("bipareto.datasets.mnist")
FC100 = importlib.import_module("bipareto.datasets.fc100")
RNG = np.random.default_rng(0)
BYTES = RNG.bytes(200_000)
FILE = File("numbers.bin", len(BYTES), hashlib.sha256(BYTES).hexdigest())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("BIPARETO_DATA", raising=False)
    monkeypatch.setattr(download, "STALL", 0.3)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "bipareto"


@contextlib.contextmanager
def server(answer):
    """A mirror on this machine; `answer(request, name)` writes the response. Yields its address and all requests."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            with contextlib.suppress(ConnectionError):
                answer(self, self.path.rpartition("/")[2])

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}/", asked
        finally:
            httpd.shutdown()
            thread.join()


def sends(files, length=None, encoding=None):
    def answer(request, name):
        if name not in files:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(files[name]) if length is None else length))
        if encoding:
            request.send_header("Content-Encoding", encoding)
        request.end_headers()
        request.wfile.write(files[name])

    return answer


def trickles(request, name):
    request.send_response(200)
    request.send_header("Content-Length", str(FILE.size))
    request.end_headers()
    for _ in range(200):
        request.wfile.write(b"0")
        request.wfile.flush()
        time.sleep(0.02)


def wanted(*mirrors, file=FILE):
    return Source("numbers", (file,), mirrors)


def refused():
    """An address on this machine that nobody listens on."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as httpd:
        return f"http://127.0.0.1:{httpd.server_port}/"


def test_a_download_is_verified_and_kept(cache):
    with server(sends({FILE.name: BYTES})) as (url, asked):
        (place,) = download.published(wanted(url))
        assert place == cache / "numbers" / FILE.name
        assert place.read_bytes() == BYTES
        download.published(wanted(url))
        assert len(asked) == 1
        place.write_bytes(b"damaged")
        assert download.published(wanted(url))[0].read_bytes() == BYTES
        assert len(asked) == 2
    assert download.published(wanted("http://127.0.0.1:1/"))[0].read_bytes() == BYTES


def test_a_compressed_file_arrives_as_published():
    packed = gzip.compress(BYTES)
    file = File("numbers.gz", len(packed), hashlib.sha256(packed).hexdigest())
    with server(sends({file.name: packed}, encoding="gzip")) as (url, _):
        assert download.published(wanted(url, file=file))[0].read_bytes() == packed


@pytest.mark.parametrize(
    "bad",
    [
        sends({FILE.name: BYTES[:-1] + b"?"}),
        sends({FILE.name: BYTES[:1000]}, length=FILE.size),
        sends({FILE.name: BYTES[:1000]}),
        sends({FILE.name: 3 * BYTES}),
        sends({}),
        trickles,
        lambda request, name: time.sleep(1),
        lambda request, name: request.wfile.write(b"no http\r\n\r\n"),
    ],
    ids=["wrong", "cut short", "short", "too long", "404", "a trickle", "silent", "no http"],
)
def test_a_bad_mirror_is_left_for_the_next_and_named_when_there_is_none(bad, cache):
    with server(bad) as (url, asked), server(sends({FILE.name: BYTES})) as (good, _):
        began = time.monotonic()
        with pytest.raises(FileNotFoundError) as caught:
            download.published(wanted(url))
        assert time.monotonic() - began < 2
        text = str(caught.value)
        assert all(part in text for part in (FILE.name, str(cache / "numbers"), FILE.sha256, url))
        assert list((cache / "numbers").iterdir()) == []
        assert asked == [f"/{FILE.name}"]
        assert download.published(wanted(refused(), url, good))[0].read_bytes() == BYTES


def test_wrong_bytes_are_named_by_their_checksum():
    with server(sends({FILE.name: BYTES[::-1]})) as (url, _), pytest.raises(FileNotFoundError) as caught:
        download.published(wanted(url))
    assert hashlib.sha256(BYTES[::-1]).hexdigest() in str(caught.value)


@pytest.mark.parametrize("load", [mnist, fc100])
@pytest.mark.parametrize("network", ["none", "no lookup ends", "no connection ends"])
def test_without_network_there_is_one_clear_error_within_a_second(load, network, cache, monkeypatch):
    def block(*args, **kwargs):
        time.sleep(3)
        raise OSError("timed out")

    module = MNIST if load is mnist else FC100
    if network == "none":
        monkeypatch.setattr(module, "SOURCE", module.SOURCE._replace(mirrors=(refused(), refused())))
    else:
        monkeypatch.setattr("socket.getaddrinfo" if "lookup" in network else "socket.create_connection", block)
    file = module.SOURCE.files[0]
    began = time.monotonic()
    with pytest.raises(FileNotFoundError) as caught:
        load()
    assert time.monotonic() - began < 1
    text = str(caught.value)
    assert text.count("must") == 1
    assert all(part in text for part in (file.name, str(cache / module.SOURCE.name), file.sha256, "BIPARETO_DATA"))


def test_a_proxy_is_asked_instead(monkeypatch):
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert download._host("https://data.example/x/") == ("proxy.example", 3128)
    assert download._host("https://inside.example/x/") == ("inside.example", 443)
    assert download._host("http://data.example/x/") == ("data.example", 80)


def test_without_pooch_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'bipareto\[data\]'"):
        mnist()


def idx(array):
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def small_mnist():
    files = {}
    for part, count in (("train", 30), ("t10k", 20)):
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(idx(RNG.integers(0, 256, (count, 28, 28))))
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(RNG.integers(0, 10, count)))
    return files


def source_of(name, files, *mirrors):
    return Source(name, tuple(File(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in files.items()), mirrors)


def test_mnist_is_downloaded_found_and_preferred_in_order(tmp_path, monkeypatch, cache):
    files = small_mnist()
    with server(sends(files)) as (url, asked):
        monkeypatch.setattr(MNIST, "SOURCE", source_of("mnist", files, url))
        images, labels = mnist()
        assert len(asked) == 4
    assert images.shape == (50, 28, 28)
    assert images.dtype == np.uint8
    expected = gzip.decompress(files["train-images-idx3-ubyte.gz"])[16:]
    assert images[:30].tobytes() == expected
    assert labels[30:].tobytes() == gzip.decompress(files["t10k-labels-idx1-ubyte.gz"])[8:]
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_bytes((cache / "mnist" / name).read_bytes())
        (cache / "mnist" / name).unlink()
    np.testing.assert_array_equal(mnist(folder).images, images)
    with pytest.raises(FileNotFoundError):
        mnist()
    monkeypatch.setenv("BIPARETO_DATA", str(tmp_path / "data"))
    np.testing.assert_array_equal(mnist().labels, labels)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte\.gz` must have the sha256"):
        mnist()
    np.savez_compressed(tmp_path / "own.npz", images=images[:7], labels=labels[:7])
    np.testing.assert_array_equal(mnist(tmp_path / "own.npz").images, images[:7])


GOOD = idx(RNG.integers(0, 256, (3, 4, 4)))
HOSTILE_IDX = {
    "magic": (b"\x00\x00\x09" + GOOD[3:], "the bytes 00 00 09 03"),
    "axes": (b"\x00\x00\x08\x01" + GOOD[4:], "the bytes 00 00 08 01"),
    "empty": (b"", "begin like an idx file"),
    "header only": (GOOD[:9], "begin like an idx file"),
    "truncated": (GOOD[:-1], "hold 48 bytes of data for its shape (3, 4, 4); found 47"),
    "oversized": (GOOD + b"\x00", "hold 48 bytes of data for its shape (3, 4, 4); found more"),
    "giant": (bytes((0, 0, 8, 3)) + b"\xff" * 12, f"hold at most {LIMIT} bytes"),
}


@pytest.mark.parametrize("name", HOSTILE_IDX)
def test_broken_idx_files_are_refused(name, tmp_path):
    content, text = HOSTILE_IDX[name]
    place = tmp_path / "x.gz"
    place.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="must") as caught:
        read_idx(place, 3)
    assert text in str(caught.value)


@pytest.mark.parametrize("content", [GOOD, gzip.compress(GOOD)[:-9], gzip.compress(GOOD)[:-8] + bytes(8)])
def test_broken_compression_is_refused(content, tmp_path):
    place = tmp_path / "x.gz"
    place.write_bytes(content)
    with pytest.raises(ValueError, match="be a readable gzip file"):
        read_idx(place, 3)


def npy(descr="|u1", shape=(4, 2, 2), data=bytes(16), fortran=False):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": fortran, "shape": shape})
    return stream.getvalue() + data


def npz(path, method=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


LABELS = npy("<i8", (4,), bytes(32))
HOSTILE_NPZ = {
    "objects": (
        {"images": npy("|O", (4,), b"cos\nsystem\n(S'true'\ntR."), "labels": LABELS},
        "found dtype object",
    ),
    "structures": ({"images": npy([("a", "|u1")], (4,), bytes(4)), "labels": LABELS}, "as numbers"),
    "text": ({"images": npy(), "labels": npy("<U1", (4,), bytes(16))}, "hold `labels` as numbers"),
    "no labels": ({"images": npy()}, "hold an array `labels`"),
    "giant shape": ({"images": npy(shape=(2**40, 2, 2)), "labels": LABELS}, "hold at most"),
    "overflowing shape": ({"images": npy(shape=(2**62, 2**62, 4)), "labels": LABELS}, "hold at most"),
    "negative shape": ({"images": npy(shape=(-4, -2, 2)), "labels": LABELS}, "hold at most"),
    "less than promised": ({"images": npy(shape=(4, 2, 3)), "labels": LABELS}, "hold 24 bytes for `images` (4, 2, 3)"),
    "more than promised": ({"images": npy(shape=(4, 2, 1)), "labels": LABELS}, "hold 8 bytes for `images` (4, 2, 1)"),
    "no numpy": ({"images": b"hello", "labels": LABELS}, "in numpy's format"),
    "giant header": ({"images": b"\x93NUMPY\x02\x00" + b"\xff" * 4 + bytes(99), "labels": LABELS}, "in numpy's format"),
    "floats": ({"images": npy("<f4", (4, 2, 2), bytes(64)), "labels": LABELS}, "hold `images` as uint8"),
    "flat images": ({"images": npy(shape=(4, 4)), "labels": LABELS}, "hold `images` as uint8"),
    "no images": ({"images": npy(shape=(0, 2, 2), data=b""), "labels": npy("<i8", (0,), b"")}, "hold `images` as uint8"),
    "other labels": ({"images": npy(), "labels": npy("<i8", (3,), bytes(24))}, "hold `labels` as integers [4]"),
    "real labels": ({"images": npy(), "labels": npy("<f8", (4,), bytes(32))}, "hold `labels` as integers [4]"),
}


@pytest.mark.parametrize("name", HOSTILE_NPZ)
def test_hostile_npz_files_are_refused(name, tmp_path):
    members, text = HOSTILE_NPZ[name]
    with pytest.raises(ValueError, match="must") as caught:
        read_npz(npz(tmp_path / "x.npz", **members))
    assert text in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("bipareto.datasets.arrays.LIMIT", 10**6)
    place = npz(tmp_path / "x.npz", images=npy(shape=(2_000, 40, 40), data=bytes(3_200_000)), labels=LABELS)
    assert place.stat().st_size < 10_000
    monkeypatch.setattr("zipfile.ZipExtFile.read", limited(zipfile.ZipExtFile.read))
    with pytest.raises(ValueError, match="hold at most 1000000 bytes"):
        read_npz(place)


def limited(read):
    def short(self, size=-1):
        assert 0 <= size < 1000
        return read(self, size)

    return short


@pytest.mark.parametrize("damage", [b"", b"PK", "cut", "flip", "encrypted"])
def test_broken_archives_are_refused(damage, tmp_path):
    place = npz(tmp_path / "x.npz", zipfile.ZIP_STORED, images=npy(), labels=LABELS)
    content = bytearray(place.read_bytes())
    if damage == "flip":
        content[content.index(npy()) + len(npy()) - 1] ^= 1
    elif damage == "encrypted":
        content[content.index(b"PK\x01\x02") + 8] |= 1
    else:
        content = content[:-30] if damage == "cut" else damage
    place.write_bytes(content)
    with pytest.raises(ValueError, match=r"be a readable \.npz file"):
        read_npz(place)


def test_own_npz_files_are_read_as_they_are(tmp_path):
    images = np.asfortranarray(RNG.integers(0, 256, (5, 3, 2, 3), dtype=np.uint8))
    np.savez(tmp_path / "x.npz", images=images, labels=np.arange(5, dtype=np.int16), extra=np.array(["text"]))
    found = read_npz(tmp_path / "x.npz")
    np.testing.assert_array_equal(found.images, images)
    np.testing.assert_array_equal(found.labels, range(5))


def cifar(counts, **changes):
    """A small archive of the published form: name -> records."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        outside = tarfile.TarInfo("../outside.bin")
        outside.size = 4
        archive.addfile(outside, io.BytesIO(b"evil"))
        for name, count in counts.items():
            records = RNG.integers(0, 256, (count, RECORD), dtype=np.uint8)
            records[:, 1] = RNG.integers(0, 100, count)
            records[:, 0] = SUPERCLASS[records[:, 1]]
            records = changes.get("records", lambda r: r)(records)
            entry = tarfile.TarInfo(name)
            entry.size = records.size
            entry = changes.get("entry", lambda e: e)(entry)
            archive.addfile(entry, io.BytesIO(records.tobytes()) if entry.isreg() else None)
    return stream.getvalue()


MEMBERS = {"cifar-100-binary/train.bin": 40, "cifar-100-binary/test.bin": 10}


def test_the_archive_is_downloaded_split_and_read_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(FC100, "MEMBERS", MEMBERS)
    content = cifar(MEMBERS)
    (tmp_path / "x.tar.gz").write_bytes(content)
    whole = read_archive(tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        record = archive.extractfile("cifar-100-binary/train.bin").read(RECORD)
    assert whole.images.shape == (50, 32, 32, 3)
    assert whole.labels[0] == record[1]
    assert whole.images[0, 1, 2].tolist() == [record[2 + 1024 * colour + 34] for colour in range(3)]
    with server(sends({"cifar-100-binary.tar.gz": content})) as (url, _):
        monkeypatch.setattr(FC100, "SOURCE", source_of("fc100", {"cifar-100-binary.tar.gz": content}, url))
        parts = [fc100(part) for part in PARTS]
    assert sum(len(part.labels) for part in parts) == 50
    assert set(SUPERCLASS[parts[2].labels]) <= set(PARTS["test"])
    assert not list(tmp_path.rglob("*.bin"))


def as_link(entry):
    entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, "/etc/passwd", 0
    return entry


def mislabelled(records):
    return np.concatenate([records[:, 1:2] * 0 + 21, records[:, 1:]], axis=1)


HOSTILE_TAR = {
    "no members": (lambda: cifar({}), "hold cifar-100-binary/train.bin as a file of"),
    "one member": (lambda: cifar({"cifar-100-binary/train.bin": 40}), "hold cifar-100-binary/test.bin"),
    "a link": (lambda: cifar(MEMBERS, entry=as_link), "found 0 bytes of type b'2'"),
    "another size": (lambda: cifar({**MEMBERS, "cifar-100-binary/train.bin": 41}), f"as a file of {40 * RECORD} bytes"),
    "other classes": (lambda: cifar(MEMBERS, records=mislabelled), "classes in their superclasses"),
    "class 255": (lambda: cifar(MEMBERS, records=lambda r: np.full_like(r, 255)), "classes in their superclasses"),
    "no gzip": (lambda: b"hello", "be a readable tar.gz file"),
    "no tar": (lambda: gzip.compress(b"hello" * 1000), "be a readable tar.gz file"),
    "cut": (lambda: cifar(MEMBERS)[:5000], "be a readable tar.gz file"),
    "cut inside": (lambda: gzip.compress(gzip.decompress(cifar(MEMBERS))[:50_000]), "must"),
    "a bomb": (lambda: gzip.compress(bytes(1_000_001)), "unpack to at most 1000000 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE_TAR)
def test_hostile_archives_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(FC100, "MEMBERS", MEMBERS)
    monkeypatch.setattr(FC100, "LIMIT", 10**6)
    make, text = HOSTILE_TAR[name]
    place = tmp_path / "x.tar.gz"
    place.write_bytes(make())
    with pytest.raises(ValueError, match="must") as caught:
        read_archive(place)
    assert text in str(caught.value)
    assert os.listdir(tmp_path) == ["x.tar.gz"]


def test_damaged_tar_headers_give_the_same_error(tmp_path, monkeypatch):
    monkeypatch.setattr(FC100, "MEMBERS", MEMBERS)
    content = gzip.decompress(cifar(MEMBERS))
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(content)
        for position in rng.integers(0, 1600, 6):
            damaged[position] = rng.integers(0, 256)
        place = tmp_path / "x.tar.gz"
        place.write_bytes(gzip.compress(bytes(damaged), 1))
        outcome = ""
        try:
            read_archive(place)
        except ValueError as error:
            outcome = str(error)
        assert outcome.startswith(f"`{place}` must ") or not outcome


def test_the_split_of_fc100_is_by_superclass():
    sizes = {part: np.isin(SUPERCLASS, classes).sum() for part, classes in PARTS.items()}
    assert sizes == {"train": 60, "validation": 20, "test": 20}
    assert sorted(sum(PARTS.values(), ())) == list(range(20))
    assert np.bincount(SUPERCLASS).tolist() == [5] * 20


def test_the_real_files(data_folder, monkeypatch):
    monkeypatch.setenv("BIPARETO_DATA", str(data_folder))
    images, labels = mnist()
    assert images.shape == (70_000, 28, 28)
    assert np.bincount(labels[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    with np.load(data_folder / "fc100" / FC100.SUBSET.name, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(SUPERCLASS, arrays["coarse_of_fine"])
        for part, key in (("train", "train"), ("validation", "val"), ("test", "test")):
            found = fc100(part)
            assert found.images.shape[1:] == (32, 32, 3)
            np.testing.assert_array_equal(np.unique(found.labels), np.sort(arrays[f"fc100_{key}_classes"]))
