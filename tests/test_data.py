"""Public data sets: downloaded from a server on this machine, or copied from a mirror."""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from cosight import data
from cosight.data import Archive, DataSet, Download, data_sets, folder_digest, get
from cosight.errors import InvalidInput, UnknownName

CONTENT = np.random.default_rng(0).bytes(300_000)
TREE = {"top/raw/a/1.csv": b"one", "top/raw/b/2.csv": b"two", "top/README.md": b"x", "top/raw/../../out": b"no"}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Files by path; `cut` bytes are sent of each answer where it is set; `seen` are the requested ranges."""

    def __init__(self):
        self.files, self.cut, self.seen, self.etag, self.ranges = {}, None, [], '"v1"', True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                asked = self.headers.get("Range")
                outer.seen.append(asked)
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                content, start = outer.files[self.path], 0
                if asked and outer.ranges and self.headers.get("If-Range", outer.etag) == outer.etag:
                    start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
                    if start >= len(content):
                        self.send_error(416)
                        return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                if outer.etag:
                    self.send_header("ETag", outer.etag)
                self.end_headers()
                self.wfile.write(content[start : None if outer.cut is None else start + outer.cut])
                if outer.cut is not None:
                    self.close_connection = True

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *arguments: None  # a client that hangs up is part of the tests
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def add_set(monkeypatch):
    """Add a set to the registry for one test; there is no mirror unless the test names one."""
    monkeypatch.delenv("COSIGHT_MIRROR", raising=False)
    monkeypatch.setattr(data_sets, "_entries", dict(data_sets._entries))

    def add(*downloads, **more):
        facts = {"name": "mine", "summary": "s", "folder": "mine", "size": 1, "licence": "CC0", "citation": "Me 2026"}
        entry = DataSet(**{**facts, "page": "https://example.org", "downloads": downloads, **more})
        return data_sets.add(entry.name, entry)

    return add


@pytest.fixture
def one_file(server, add_set):
    """A set of one file of 300 kB."""
    server.files["/a.bin"] = CONTENT
    return add_set(Download(f"{server.address}/a.bin", "a.bin", len(CONTENT), sha256(CONTENT)))


def packed(tree, kind="tar"):
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in tree.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name, content in tree.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            link = tarfile.TarInfo("top/raw/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
    return stream.getvalue()


def tree_digest(tree):
    lines = [f"{sha256(content)}  {name}\n" for name, content in sorted(tree.items())]
    return sha256("".join(lines).encode())


@pytest.fixture
def archived(server, add_set):
    digest = tree_digest({"a/1.csv": b"one", "b/2.csv": b"two"})
    server.files["/x.tar.gz"] = packed(TREE)
    return add_set(
        Download(f"{server.address}/x.tar.gz", "x.tar.gz", archive=Archive({"raw/a": "a", "raw/b": "b"}, 2, digest))
    )


def listed(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# ---- downloads


def test_a_set_is_downloaded_and_verified(one_file, tmp_path, cosight, server):
    done = cosight("data", "get", "mine", "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"mine: 1 files, 0.3 MB in {tmp_path / 'mine'} (checksum verified)",
        "licence: CC0",
        "cite: Me 2026; https://example.org",
    ]
    assert (tmp_path / "mine" / "a.bin").read_bytes() == CONTENT
    assert set(listed(tmp_path / "mine")) == {"a.bin", ".mine.json", ".lock"}
    assert "already there" in cosight("data", "get", "mine", "--out", tmp_path).out
    assert len(server.seen) == 1
    cosight("data", "get", "mine", "--out", tmp_path, "--force")
    assert len(server.seen) == 1  # the file is there, and right


def test_a_download_that_was_cut_is_resumed(one_file, tmp_path, server, cosight):
    server.cut = 100_000
    done = cosight("data", "get", "mine", "--out", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert re.search(r"was lost after 100,000 bytes of a.bin .*; run the same command again to resume", done.err)
    assert not (tmp_path / "mine" / "a.bin").exists()
    server.cut = None
    assert get("mine", out=tmp_path).verified
    assert server.seen == [None, "bytes=100000-"]
    assert (tmp_path / "mine" / "a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("change", ["etag", "ranges"])
def test_a_download_starts_again_where_it_cannot_be_resumed(one_file, tmp_path, server, change):
    server.cut = 1000
    with pytest.raises(InvalidInput, match="was lost after 1,000 bytes"):
        get("mine", out=tmp_path)
    server.cut = None
    setattr(server, change, '"v2"' if change == "etag" else False)
    assert get("mine", out=tmp_path).verified
    assert (tmp_path / "mine" / "a.bin").read_bytes() == CONTENT


def test_a_download_that_was_complete_is_only_checked(one_file, tmp_path, server):
    part = tmp_path / "mine" / ".mine-download" / "a.bin"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT)
    assert get("mine", out=tmp_path).verified
    assert server.seen == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(CONTENT[:-1] + b"?", "wrong checksum, sha256"), (CONTENT[:-1], "wrong size, 299,999 bytes instead of 300,000")],
)
def test_another_file_is_refused_and_removed(one_file, tmp_path, server, content, words):
    server.files["/a.bin"] = content
    with pytest.raises(InvalidInput, match=f"{words}.*; the file was removed: try again, or see https://example.org"):
        get("mine", out=tmp_path)
    assert listed(tmp_path) == []
    server.files["/a.bin"] = CONTENT
    assert get("mine", out=tmp_path).verified


def test_a_file_that_is_gone_is_named(one_file, tmp_path, server, cosight):
    server.files.clear()
    done = cosight("data", "get", "mine", "--out", tmp_path)
    assert done.code == 2
    assert done.err == f"cosight: {server.address}/a.bin is not there (HTTP 404); see https://example.org\n"
    assert list(tmp_path.iterdir()) == []


def test_no_network_names_the_mirror(add_set, tmp_path, cosight):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    add_set(Download(f"http://{address}/a", "a", 1, "0" * 64))
    done = cosight("data", "get", "mine", "--out", tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"cosight: no connection to {address} (")
    assert done.err.endswith("check the network, or name a mirror folder with --mirror or COSIGHT_MIRROR\n")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_and_the_download_resumed(one_file, tmp_path, server, refused_when_full):
    refused_when_full([50_000], "data", "get", "mine", "--out", tmp_path, folder=tmp_path)
    assert get("mine", out=tmp_path).verified
    assert re.fullmatch(r"bytes=\d+-", server.seen[-1])


def test_progress_counts_bytes(one_file, tmp_path):
    calls = []
    get("mine", out=tmp_path, progress=lambda *values: calls.append(values))
    assert calls[-1] == (300_000, 300_000, "a.bin")
    assert [done for done, *_ in calls] == sorted(done for done, *_ in calls)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_is_unpacked_in_part(archived, tmp_path, server, kind):
    server.files["/x.tar.gz"] = packed(TREE, kind)
    fetched = get("mine", out=tmp_path)
    assert (fetched.verified, fetched.files, fetched.size) == (True, 2, 6)
    assert [name for name in listed(tmp_path / "mine") if name[0] != "."] == ["a/1.csv", "b/2.csv"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (packed({**TREE, "top/raw/a/1.csv": b"other"}), "wrong checksum, its 2 files are not the 2 of the published"),
        (packed({"top/raw/a/1.csv": b"one"}), "wrong checksum, its 1 files are not the 2"),
        (packed(TREE)[:100], "not a readable archive"),
        (b"not an archive", "not a readable archive"),
    ],
    ids=["another file", "a file less", "truncated", "no archive"],
)
def test_another_archive_is_refused_whole(archived, tmp_path, server, content, words):
    server.files["/x.tar.gz"] = content
    with pytest.raises(InvalidInput, match=words):
        get("mine", out=tmp_path)
    assert listed(tmp_path) == []


def test_an_interrupted_set_continues_with_what_it_lacks(add_set, tmp_path, server):
    server.files |= {"/x.tar.gz": packed(TREE), "/a.bin": CONTENT}
    digest = tree_digest({"a/1.csv": b"one", "b/2.csv": b"two"})
    add_set(
        Download(f"{server.address}/x.tar.gz", "x.tar.gz", archive=Archive({"raw/a": "a", "raw/b": "b"}, 2, digest)),
        Download(f"{server.address}/a.bin", "a.bin", len(CONTENT), sha256(CONTENT)),
        Download(f"{server.address}/later.bin", "later.bin", 3, sha256(b"end")),
    )
    with pytest.raises(InvalidInput, match="404"):
        get("mine", out=tmp_path)
    server.files["/later.bin"] = b"end"
    assert get("mine", out=tmp_path).verified
    assert len(server.seen) == 4  # archive, a.bin, 404, later.bin


IMAGES = {f"LAION-C/mosaic/intensity_level_{level}/ball/a.JPEG": bytes([level]) for level in (1, 2)}


@pytest.fixture
def recorded(server, add_set):
    """A set whose archives are listed as Zenodo lists those of a record; a call publishes them."""
    add_set(record=f"{server.address}/record", kept=data_sets["laion-c"].kept)

    def publish(**archives):
        files = []
        for name, content in archives.items():
            server.files[f"/{name}/content"] = content
            links = {"self": f"{server.address}/{name}/content"}
            md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
            files.append({"key": f"{name}.zip", "size": len(content), "checksum": f"md5:{md5}", "links": links})
        readme = {"key": "README.md", "size": 1, "checksum": "md5:0", "links": {"self": f"{server.address}/none"}}
        server.files["/record"] = json.dumps({"id": 1, "files": [*files, readme]}).encode()

    return publish


def test_the_archives_of_a_record_are_compared_with_the_checksums_that_it_lists(recorded, tmp_path, cosight):
    extra = {
        "glitched/intensity_level_5/car/b.JPEG": b"x",
        "notes.txt": b"no",
        "../mosaic/intensity_level_1/c/d.png": b"",
    }
    recorded(mosaic=packed(IMAGES, "zip"), glitched=packed(extra, "zip"))
    done = cosight("data", "get", "mine", "--out", tmp_path)
    assert (done.code, "checksum verified" in done.out) == (0, True)
    assert [name for name in listed(tmp_path / "mine") if name[0] != "."] == [
        "glitched/intensity_level_5/car/b.JPEG",
        "mosaic/intensity_level_1/ball/a.JPEG",
        "mosaic/intensity_level_2/ball/a.JPEG",
    ]


def test_an_interrupted_record_continues_with_the_archives_it_lacks(recorded, tmp_path):
    recorded(mosaic=packed(IMAGES, "zip"), glitched=CONTENT)
    with pytest.raises(InvalidInput, match=r"glitched\.zip: not a readable archive"):
        get("mine", out=tmp_path)
    recorded(mosaic=b"not asked for again", glitched=packed({"x/luminance/intensity_level_3/cat/a.jpg": b"x"}, "zip"))
    assert get("mine", out=tmp_path).files == 3


def test_an_archive_of_a_record_that_arrives_changed_is_refused(recorded, tmp_path, server):
    recorded(mosaic=packed(IMAGES, "zip"))
    server.files["/mosaic/content"] = bytes(reversed(server.files["/mosaic/content"]))
    with pytest.raises(InvalidInput, match="wrong checksum, md5"):
        get("mine", out=tmp_path)
    assert listed(tmp_path) == []


def test_an_archive_without_the_published_layout_is_kept_to_be_unpacked_by_hand(recorded, tmp_path):
    recorded(mosaic=packed({"images/a.JPEG": b"x"}, "zip"))
    with pytest.raises(
        InvalidInput, match=r"mosaic\.zip has no file of the published layout; unpack it yourself: "
    ) as e:
        get("mine", out=tmp_path)
    assert zipfile.is_zipfile(str(e.value).rsplit(": ", 1)[1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>", "is not a list of files as Zenodo's"),
        (b"[]", "is not a list"),
        (b'{"files": []}', "lists no archive"),
    ],
)
def test_a_record_that_lists_no_archive(add_set, server, tmp_path, answer, words):
    server.files["/record"] = answer
    add_set(record=f"{server.address}/record", kept=".*")
    with pytest.raises(InvalidInput, match=words):
        get("mine", out=tmp_path)
    server.files.clear()
    with pytest.raises(InvalidInput, match=r"cannot be read \(HTTP 404\); see https://example\.org"):
        get("mine", out=tmp_path)


# ---- mirrors


def test_a_mirror_goes_before_the_network(archived, tmp_path, server, monkeypatch):
    for name, content in (("a/1.csv", b"one"), ("b/2.csv", b"two"), ("LICENSE", b"free")):
        path = tmp_path / "mirror" / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    fetched = get("mine", out=tmp_path / "out", mirror=tmp_path / "mirror")
    assert (fetched.verified, fetched.files, server.seen) == (True, 3, [])
    monkeypatch.setenv("COSIGHT_MIRROR", str(tmp_path / "out"))  # what `get` writes is a mirror
    assert get("mine", out=tmp_path / "again").verified
    (tmp_path / "out" / "mine" / "a" / "1.csv").write_bytes(b"One")
    with pytest.raises(InvalidInput, match="its checksum is not that of the published set; repair the mirror"):
        get("mine", out=tmp_path / "third")
    (tmp_path / "out" / "mine" / "a" / "1.csv").unlink()
    part = get("mine", out=tmp_path / "fourth")
    assert (part.verified, part.notices) == (False, ("the mirror has 1 of 2 files of mine",))
    monkeypatch.setenv("COSIGHT_MIRROR", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="the mirror must be a folder that exists"):
        get("mine", out=tmp_path / "fifth")


def test_what_the_mirror_lacks_is_downloaded(one_file, tmp_path):
    fetched = get("mine", out=tmp_path / "out", mirror=tmp_path)
    assert fetched.verified
    assert fetched.notices == (f"the mirror {tmp_path} has no folder mine",)


def test_a_set_without_an_address(add_set, tmp_path):
    add_set(by_hand="unpack it into {folder}")
    with pytest.raises(InvalidInput, match=f"cannot be downloaded by cosight: unpack it into {tmp_path}/mine"):
        get("mine", out=tmp_path)
    (tmp_path / "mirror" / "mine").mkdir(parents=True)
    with pytest.raises(InvalidInput, match="is empty"):
        get("mine", out=tmp_path, mirror=tmp_path / "mirror")
    (tmp_path / "mirror" / "mine" / "x").write_text("x")
    fetched = get("mine", out=tmp_path, mirror=tmp_path / "mirror")
    assert (fetched.verified, fetched.notices) == (False, ("no checksum of mine is known",))


def test_a_set_without_a_known_checksum_is_compared_with_the_users(add_set, tmp_path, cosight):
    add_set(by_hand="unpack it into {folder}")
    (tmp_path / "mirror" / "mine").mkdir(parents=True)
    (tmp_path / "mirror" / "mine" / "x").write_text("x")
    options = ("--mirror", tmp_path / "mirror", "--out")
    digest = sha256(f"{sha256(b'x')}  x\n".encode())
    assert f"--sha256: {digest}\n" in cosight("data", "get", "mine", *options, tmp_path / "one").out
    done = cosight("data", "get", "mine", *options, tmp_path / "two", "--sha256", digest.upper())
    assert "(checksum verified)" in done.out
    assert not done.err
    assert "(checksum verified, already there)" in cosight("data", "get", "mine", *options, tmp_path / "two").out
    (tmp_path / "mirror" / "mine" / "x").write_text("y")
    refused = cosight("data", "get", "mine", *options, tmp_path / "three", "--sha256", digest)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"must have the checksum of --sha256, {digest}, got " in refused.err
    assert not (tmp_path / "three").exists()
    (tmp_path / "two" / "mine" / "x").write_text("y")
    assert cosight("data", "get", "mine", *options, tmp_path / "two", "--sha256", digest).code == 2


def test_names_are_suggested():
    with pytest.raises(UnknownName, match="did you mean error-consistency"):
        get("error-consistancy")


@pytest.mark.parametrize(
    ("name", "verified"),
    [
        ("model-vs-human", True),
        ("error-consistency", True),
        ("imagenet-c-frost", True),
        ("mean-power-spectrum", True),
        ("lpips-weights", True),
        ("cifar-10h", False),  # a mirror may have the images as one PNG instead of test_batch.bin
    ],
)
def test_the_real_sets_have_the_published_checksums(mirror, tmp_path, name, verified):
    fetched = get(name, out=tmp_path, mirror=mirror)
    assert fetched.verified == verified
    assert fetched.files == sum(path.is_file() for path in (mirror / data_sets[name].folder).rglob("*"))


# ---- the registry


def test_every_set_says_what_it_is(cosight):
    entries = json.loads(cosight("data", "list", "--json").out)
    assert [entry["name"] for entry in entries] == list(data_sets)
    for entry in data_sets.values():
        assert entry.summary
        assert entry.licence
        assert entry.citation
        assert entry.page.startswith("https://")
        assert entry.is_downloadable or entry.by_hand
        for download in entry.downloads:
            assert download.sha256 is not None or download.archive is not None
            assert download.url is None or download.url.startswith("https://")
        digests = [download.sha256 or download.archive.digest for download in entry.downloads]
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_the_commands_that_are_shown_exist(cosight):
    for entry in data_sets.values():
        words = entry.use.split()[1:]
        if words:
            command = words[:2] if words[0] in ("build", "stimuli") else words[:1]
            text = cosight(*command, "--help").out
            assert all(f"{word} " in text for word in words if word.startswith("--")), entry.use


def test_the_list_fits_on_a_page(cosight):
    done = cosight("data", "list")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1 + len(data_sets)


def test_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data.data_folder() == tmp_path / "cosight"


def test_the_digest_depends_on_names_and_contents(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    both = [tmp_path / "b", tmp_path / "a"]
    assert folder_digest(tmp_path, both) == tree_digest({"a": b"1", "b": b"2"})
