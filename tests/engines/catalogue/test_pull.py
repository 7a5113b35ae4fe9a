"""Downloads from a real server with real faults: what is kept, what is tried again, what is said."""

from __future__ import annotations

import collections
import http.client
import json
import shutil
import ssl
import threading
import urllib.error
import urllib.request

import pytest

from engines.catalogue.claim import claimed
from engines.catalogue.pins import LOCK_FILE
from engines.catalogue.pull import Puller, PullFailed
from engines.catalogue.store import Store
from engines.catalogue.transfer import Limits, Transfer
from engines.errors import DoppelcamError, UsageError
from engines.files import sha256_of
from tests.engines.catalogue.networks import MODEL, OTHER, catalogue_of, digest, entry_for, put
from tests.engines.catalogue.server import cut, good, hang, headers, page, raw, serving, status

QUICK = Limits(timeout_s=0.2, attempts=3)


@pytest.fixture
def site():
    with serving() as made:
        made.files["/tiny.onnx"] = MODEL
        yield made


class Bench:
    """A folder, a puller, and what it did."""

    def __init__(self, folder, site, limits=Limits(), **changes) -> None:  # noqa: B008 - frozen
        self.entry = entry_for(site.url + "tiny.onnx", **changes)
        self.store = Store(folder, catalogue_of(self.entry))
        self.waits: list[float] = []
        self.seen: list[tuple[int, int | None]] = []
        self.puller = Puller(self.store, limits=limits, wait=self.waits.append)

    def pull(self):
        return self.puller.pull(self.entry, lambda done, total: self.seen.append((done, total)))

    @property
    def target(self):
        return self.store.folder / "tiny.onnx"

    def left_over(self):
        return sorted(p.name for p in self.store.folder.iterdir() if not p.name.startswith("."))


@pytest.fixture
def bench(tmp_path, site):
    return lambda limits=QUICK, **changes: Bench(tmp_path / "models", site, limits, **changes)


def test_a_download_is_whole_checked_and_leaves_nothing_beside_it(bench):
    b = bench()
    pulled = b.pull()
    assert b.target.read_bytes() == MODEL
    assert (pulled.held.path, pulled.pinned, pulled.held.state) == (b.target, False, "ready")
    assert b.left_over() == ["tiny.onnx"]
    assert b.seen[0] == (0, len(MODEL))
    assert b.seen[-1] == (len(MODEL), len(MODEL))
    assert [done for done, _ in b.seen] == sorted(done for done, _ in b.seen)


def test_a_sum_that_nobody_knows_is_pinned_by_the_first_download(bench, site):
    b = bench(known=False)
    assert b.pull().pinned
    lock = json.loads((b.store.folder / LOCK_FILE).read_text())
    assert lock["pins"]["tiny.onnx"] == {
        "sha256": digest(MODEL),
        "size": len(MODEL),
        "source": b.entry.urls[0],
    }
    # From now on another file at the same address is refused, and the old one stays.
    site.files["/tiny.onnx"] = OTHER
    with pytest.raises(PullFailed) as refused:
        b.pull()
    assert digest(OTHER) in refused.value.what
    assert digest(MODEL) in refused.value.what
    assert b.target.read_bytes() == MODEL


def test_a_wrong_sum_changes_nothing_that_the_user_had(bench, site):
    b = bench()
    put(b.store.folder, "tiny.onnx", b"mine")
    site.files["/tiny.onnx"] = MODEL[:-1] + bytes([MODEL[-1] ^ 1])
    with pytest.raises(PullFailed, match="sha256") as refused:
        b.pull()
    assert digest(MODEL) in refused.value.what
    assert digest(site.files["/tiny.onnx"]) in refused.value.what
    assert b.target.read_bytes() == b"mine"
    assert b.left_over() == ["tiny.onnx"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("etag", ['"one"', None])
def test_what_was_cut_off_goes_on_where_it_ended(bench, site, known, etag):
    site.plan["/tiny.onnx"] = [cut(0.5, etag), cut(0.5, etag)]
    site.always["/tiny.onnx"] = good(etag)
    b = bench(known=known)
    b.pull()
    assert b.target.read_bytes() == MODEL
    if known or etag:
        assert site.ranges()[0] is None
        assert site.ranges()[1] == f"bytes={len(MODEL) // 2}-"
        assert site.ranges()[2] is not None
    else:
        # With neither a mark nor a sum nobody could tell that both halves are of one file.
        assert site.ranges() == [None, None, None]
    assert len(b.waits) == 2


def test_it_goes_on_in_another_process_after_ctrl_c(bench, site):
    class Stopped(KeyboardInterrupt):
        pass

    def stop(done, total):
        if done > 0:
            raise Stopped

    site.always["/tiny.onnx"] = good()
    b = bench(known=False)
    with pytest.raises(Stopped):
        b.puller.pull(b.entry, stop)
    assert "tiny.onnx" not in b.left_over()
    part = b.store.folder / "tiny.onnx.part"
    have = part.stat().st_size
    assert have > 0
    assert MODEL.startswith(part.read_bytes())
    put(b.store.folder, "tiny.onnx.part", MODEL[:1000])
    later = bench(known=False)
    later.pull()
    assert site.asked[-1][1]["Range"] == "bytes=1000-"
    assert site.asked[-1][1]["If-Range"] == '"one"'
    assert later.target.read_bytes() == MODEL


def test_a_server_that_knows_no_parts_sends_all_of_it_again(bench, site):
    site.plan["/tiny.onnx"] = [cut(0.7)]
    site.always["/tiny.onnx"] = good(ranges=False)
    b = bench()
    b.pull()
    assert site.ranges()[1] is not None
    assert b.target.read_bytes() == MODEL


@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_changed_meanwhile_is_not_mixed_with_the_old_one(bench, site, known):
    site.files["/tiny.onnx"] = OTHER
    site.plan["/tiny.onnx"] = [cut(0.5, '"old"'), status(404)]
    b = bench(known=known, size=None)
    with pytest.raises(PullFailed):
        b.pull()
    assert "tiny.onnx.part" in b.left_over()
    site.files["/tiny.onnx"] = MODEL
    bench(known=known, size=None).pull()
    assert b.target.read_bytes() == MODEL


def test_a_part_of_something_else_is_thrown_away_once_its_sum_shows_it(bench, site):
    site.always["/tiny.onnx"] = good(None)
    for rest in (b"x" * 1000, b"x" * len(MODEL), b"x" * (len(MODEL) + 5)):
        b = bench()
        put(b.store.folder, "tiny.onnx.part", rest)
        b.pull()
        assert b.target.read_bytes() == MODEL
        assert b.left_over() == ["tiny.onnx"]


def test_a_part_that_is_whole_is_only_checked(bench, site):
    b = bench(known=False)
    put(b.store.folder, "tiny.onnx.part", MODEL)
    note = {"url": b.entry.urls[0], "mark": '"one"'}
    (b.store.folder / "tiny.onnx.part.from").write_text(json.dumps(note))
    b.pull()
    assert site.ranges() == [f"bytes={len(MODEL)}-"]
    assert b.target.read_bytes() == MODEL


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"url": 1}', b"\xff", b"null", b"{}" * 9999])
def test_a_damaged_note_means_beginning_anew(bench, site, note):
    b = bench(known=False)
    put(b.store.folder, "tiny.onnx.part", MODEL[:500])
    put(b.store.folder, "tiny.onnx.part.from", note)
    b.pull()
    assert site.ranges() == [None]
    assert b.target.read_bytes() == MODEL


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again_with_longer_pauses(bench, site, code):
    site.plan["/tiny.onnx"] = [status(code), status(code, Retry_After="7")]
    b = bench()
    b.pull()
    assert b.waits == [1.0, 7.0]
    assert b.target.read_bytes() == MODEL


def test_a_server_that_stays_busy_is_given_up(bench, site):
    site.always["/tiny.onnx"] = status(503, Retry_After="999999")
    b = bench()
    with pytest.raises(PullFailed, match="503"):
        b.pull()
    assert len(site.asked) == 3
    assert b.waits == [60.0, 60.0]


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 204, 301])
def test_a_refusal_is_final(bench, site, code):
    site.always["/tiny.onnx"] = status(code)
    b = bench()
    with pytest.raises(PullFailed, match="tiny could not be got") as refused:
        b.pull()
    assert len(site.asked) == 1
    assert not b.waits
    assert "--from FOLDER" in refused.value.fix
    assert b.left_over() == []


@pytest.mark.parametrize("fault", [
    page(), page("text/html; charset=utf-8"), page("application/octet-stream"), page("application/json", b"{}"),
    page("application/octet-stream", b"  \n<html>"), page("", b"<?xml version='1.0'?>"),
    page("application/octet-stream", b"version https://git-lfs.github.com/spec/v1\noid sha256:12"),
])  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_a_page_that_says_it_is_fine_is_no_model(bench, site, fault, known):
    site.always["/tiny.onnx"] = fault
    b = bench(known=known, size=None)
    with pytest.raises(PullFailed, match=r"instead of|page|pointer"):
        b.pull()
    assert not b.target.exists()
    assert not (b.store.folder / LOCK_FILE).exists()


@pytest.mark.parametrize(
    "data", [b"\x00" * 500, MODEL[:-100], MODEL[:10], b"plain words that go on", b"\x08\x08"]
)
def test_what_is_no_whole_model_is_never_pinned(bench, site, data):
    site.files["/tiny.onnx"] = data
    b = bench(known=False)
    with pytest.raises(PullFailed, match=r"not an ONNX model|not a whole ONNX model"):
        b.pull()
    assert b.left_over() == []


def test_without_a_length_a_cut_is_still_seen(bench, site):
    site.always["/tiny.onnx"] = cut(0.5, length=False)
    for known in (True, False):
        b = bench(known=known)
        with pytest.raises(PullFailed):
            b.pull()
        assert not b.target.exists()
    site.always["/tiny.onnx"] = headers()
    b = bench(known=False)
    b.pull()
    assert b.seen[-1] == (len(MODEL), None)


def test_a_file_of_another_size_is_not_even_begun(bench, site):
    site.files["/tiny.onnx"] = OTHER
    b = bench()
    with pytest.raises(PullFailed, match=f"{len(OTHER):,} bytes and not {len(MODEL):,}"):
        b.pull()
    assert b.seen == []
    assert b.left_over() == []


@pytest.mark.parametrize("fault", [good(), headers()])
def test_no_file_is_larger_than_allowed(bench, site, fault):
    site.always["/tiny.onnx"] = fault
    b = bench(limits=Limits(largest=10_000, timeout_s=0.2), known=False)
    with pytest.raises(PullFailed, match="10,000"):
        b.pull()
    assert b.left_over() == []


def test_a_server_that_sends_more_than_the_catalogue_says_is_stopped(bench, site):
    site.files["/tiny.onnx"] = MODEL + b"x" * 1000
    site.always["/tiny.onnx"] = headers()
    b = bench()
    with pytest.raises(PullFailed, match=f"more than {len(MODEL):,} bytes"):
        b.pull()
    assert b.left_over() == []


def test_a_server_that_falls_silent_is_asked_again(bench, site):
    site.plan["/tiny.onnx"] = [hang(site)]
    b = bench()
    b.pull()
    assert len(site.asked) == 2
    assert b.target.read_bytes() == MODEL


def test_a_server_that_drips_is_given_up(tmp_path, site):
    site.always["/tiny.onnx"] = hang(site)
    b = Bench(tmp_path, site)
    hours = iter(range(0, 10**9, 3600))
    limits = Limits(attempts=2, timeout_s=5)
    b.puller = Puller(b.store, limits=limits, now=lambda: next(hours), wait=b.waits.append)
    with pytest.raises(PullFailed, match="too slow"):
        b.pull()


@pytest.mark.parametrize("answer", [
    b"", b"HTTP/1.1", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 999999 What\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nabc",
    b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 7-9/10\r\n\r\nabc", b"HTTP/1.1 206 Partial\r\n\r\nabc",
])  # fmt: skip
def test_whatever_a_server_says_it_is_an_error_of_ours(bench, site, answer):
    site.always["/tiny.onnx"] = raw(answer)
    b = bench(known=False)
    with pytest.raises(PullFailed, match="tiny could not be got"):
        b.pull()
    assert not b.target.exists()


def test_a_machine_that_is_not_there(tmp_path, site):
    b = Bench(tmp_path, site, QUICK)
    b.entry = entry_for("http://127.0.0.1:1/tiny.onnx")
    with pytest.raises(PullFailed, match="connection failed"):
        b.pull()


def test_a_server_that_cannot_prove_who_it_is_is_asked_once(bench, monkeypatch):
    asked = []

    def distrust(self, request, timeout):
        asked.append(request)
        raise urllib.error.URLError(ssl.SSLCertVerificationError(1, "certificate verify failed"))

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", distrust)
    with pytest.raises(PullFailed, match="certificate verify failed"):
        bench().pull()
    assert len(asked) == 1


def test_the_next_address_is_asked_when_one_fails(tmp_path, site):
    site.files |= {"/b.onnx": OTHER, "/c.onnx": MODEL}
    urls = tuple(site.url + name for name in ("a.onnx", "b.onnx", "c.onnx"))
    b = Bench(tmp_path, site, QUICK, urls=urls)
    assert b.pull().source == urls[2]
    assert b.target.read_bytes() == MODEL
    b = Bench(tmp_path / "more", site, QUICK, urls=urls[:2])
    with pytest.raises(PullFailed) as refused:
        b.pull()
    assert all(url in refused.value.what for url in urls[:2])


def test_redirects_end(bench, site):
    site.always["/tiny.onnx"] = status(302, Location=site.url + "tiny.onnx")
    b = bench()
    with pytest.raises(PullFailed, match=r"infinite loop|redirect"):
        b.pull()
    assert len(site.asked) <= 7
    for n in range(20):
        site.always[f"/{n}"] = status(302, Location=f"{site.url}{n + 1}")
    b.entry = entry_for(site.url + "0")
    with pytest.raises(PullFailed, match="redirect"):
        b.pull()


def test_a_redirect_is_followed_with_the_part_that_is_missing(bench, site):
    site.files["/other"] = MODEL
    site.always["/tiny.onnx"] = status(302, Location="/other")
    site.plan["/other"] = [cut(0.5)]
    b = bench()
    b.pull()
    assert site.asked[-1][0] == "/other"
    assert site.asked[-1][1]["Range"] == f"bytes={len(MODEL) // 2}-"


@pytest.mark.parametrize("place", [
    "http://example.invalid/x", "ftp://example.invalid/x", "file:///etc/passwd", "http://127.0.0.2/x",
    "//example.invalid/x",
])  # fmt: skip
def test_no_redirect_leads_to_what_is_less_safe(bench, site, place):
    site.always["/tiny.onnx"] = status(302, Location=place)
    with pytest.raises(PullFailed, match=r"no https|not allowed"):
        bench().pull()
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    "url", ["http://example.invalid/tiny.onnx", "ftp://x/y.onnx", "file:///etc/passwd", "tiny.onnx"]
)
def test_only_https_is_asked(tmp_path, site, url):
    b = Bench(tmp_path, site, QUICK)
    b.entry = entry_for(url)
    with pytest.raises(PullFailed, match="no https address"):
        b.pull()


def test_a_mirror_takes_the_place_of_every_address(tmp_path, site):
    site.files["/deep/tiny%2B1.onnx"] = MODEL
    entry = entry_for("https://example.invalid/x.onnx", file="tiny+1.onnx")
    store = Store(tmp_path, catalogue_of(entry))
    puller = Puller(store, mirror=site.url + "deep")
    assert puller.addresses(entry) == (site.url + "deep/tiny%2B1.onnx",)
    assert puller.pull(entry, lambda done, total: None).source == site.url + "deep/tiny%2B1.onnx"
    assert (tmp_path / "tiny+1.onnx").read_bytes() == MODEL


@pytest.mark.parametrize("mirror", [
    "http://example.com/", "ftp://example.com/", "example.com", "https://", "https://u:p@example.com/", "https://a/../b",
    "https://a/%2e%2e/b", "https://a:port/", "https://a/?q=1", "https://a/#f", "https://a b/", "https://a\r\nX: y/",
    "http://127.0.0.1.example.com/", "http://localhost@example.com/", "file:///tmp/",
])  # fmt: skip
def test_a_mirror_is_https_or_this_machine(tmp_path, mirror):
    with pytest.raises(UsageError, match="mirror"):
        Puller(Store(tmp_path, catalogue_of()), mirror=mirror)


def test_two_do_not_write_the_same_file(bench):
    b = bench()
    b.store.folder.mkdir()
    with claimed(b.target), pytest.raises(DoppelcamError, match="Another doppelcam"):
        b.pull()
    b.pull()
    assert b.target.read_bytes() == MODEL


def test_two_models_at_once_are_both_pinned(tmp_path, site):
    entries = [
        entry_for(f"{site.url}{n}.onnx", known=False, name=f"m{n}", file=f"{n}.onnx") for n in range(4)
    ]
    store = Store(tmp_path, catalogue_of(*entries))
    for n in range(4):
        site.files[f"/{n}.onnx"] = MODEL
    pull = Puller(store).pull
    threads = [threading.Thread(target=pull, args=(entry, lambda done, total: None)) for entry in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(store.pins.all()) == {f"{n}.onnx" for n in range(4)}


def test_a_full_disk_is_said_before_anything_is_asked(bench, site, monkeypatch):
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    b = bench()
    with pytest.raises(DoppelcamError, match="MB free") as refused:
        b.pull()
    assert refused.value.fix
    assert not site.asked


def test_a_disk_that_fills_up_meanwhile_is_said(bench, monkeypatch):
    def full(self, progress):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Transfer, "run", full)
    with pytest.raises(DoppelcamError, match="No space left") as refused:
        bench().pull()
    assert refused.value.exit_code == 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path, site):
    put(tmp_path, "file", b"x")
    b = Bench(tmp_path / "file" / "models", site)
    with pytest.raises(UsageError, match="cannot be made"):
        b.pull()


def test_a_connection_that_breaks_within_a_read_is_tried_again(bench, monkeypatch):
    real, broken = http.client.HTTPResponse.read1, iter([True])

    def read1(self, n=-1):
        if next(broken, False):
            raise ConnectionResetError(104, "Connection reset by peer")
        return real(self, n)

    monkeypatch.setattr(http.client.HTTPResponse, "read1", read1)
    b = bench()
    b.pull()
    assert len(b.waits) == 1
    assert b.target.read_bytes() == MODEL


def test_a_copy_from_a_folder_is_checked_the_same_way(tmp_path):
    stick = tmp_path / "stick"
    for known in (True, False):
        entry = entry_for(known=known)
        store = Store(tmp_path / f"models{known}", catalogue_of(entry))
        put(stick, "tiny.onnx", MODEL)
        seen: list[tuple[int, int | None]] = []
        pulled = Puller(store).copy(entry, stick, lambda *step, seen=seen: seen.append(step))
        assert pulled.pinned is not known
        assert seen[-1] == (len(MODEL), len(MODEL))
        assert (store.folder / "tiny.onnx").read_bytes() == MODEL
        put(stick, "tiny.onnx", OTHER)
        with pytest.raises(PullFailed, match=digest(MODEL)):
            Puller(store).copy(entry, stick, lambda *step: None)
        assert (store.folder / "tiny.onnx").read_bytes() == MODEL
        assert not (store.folder / "tiny.onnx.part").exists()


@pytest.mark.parametrize("harm", ["missing", "directory", "empty", "html"])
def test_a_folder_without_the_model_says_so(tmp_path, harm):
    stick = tmp_path / "stick"
    stick.mkdir()
    if harm == "directory":
        (stick / "tiny.onnx").mkdir()
    elif harm != "missing":
        put(stick, "tiny.onnx", b"" if harm == "empty" else b"<html>")
    entry = entry_for(known=False)
    with pytest.raises(DoppelcamError, match=r"tiny\.onnx"):
        Puller(Store(tmp_path / "m", catalogue_of(entry))).copy(entry, stick, lambda *step: None)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_pulled_is_not_read_whole_once_more(bench, monkeypatch, known):
    b = bench(known=known)
    b.pull()
    read = []
    monkeypatch.setattr("engines.sums.sha256_of", lambda path: read.append(path) or sha256_of(path))
    assert Store(b.store.folder, b.store.catalogue).require("tiny") == b.target
    assert read == []
    b.target.write_bytes(OTHER + b"0")
    assert Store(b.store.folder, b.store.catalogue).held("tiny").state == "wrong"
    assert read == [b.target]
