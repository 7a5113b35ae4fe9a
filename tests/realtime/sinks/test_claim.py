"""Who feeds a device through us: alive, dead, or let go in good order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from realtime.sinks import claim as module
from realtime.sinks.claim import Claim, claims_folder

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="is about Linux's virtual cameras"
)


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "video10"
    path.touch()
    return str(path)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "claims"


def test_taken_and_let_go(device, folder):
    ours, other = Claim(device, folder), Claim(device, folder)
    assert (other.owner(), other.left_behind()) == (None, False)
    ours.take()
    assert (other.owner(), other.left_behind()) == (os.getpid(), False)
    ours.release()
    ours.release()
    assert (other.owner(), other.left_behind()) == (None, False)
    assert list(folder.iterdir()) == []


def die(device, folder):
    body = (
        f"from realtime.sinks.claim import *; import os; from pathlib import Path; "
        f"Claim({device!r}, Path({str(folder)!r})).take(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", body], check=False).returncode == -9


def test_one_that_died_leaves_it_behind_until_the_next_one_takes_it(device, folder):
    die(device, folder)
    other = Claim(device, folder)
    assert (other.owner(), other.left_behind()) == (None, True)
    other.take()
    assert Claim(device, folder).left_behind() is False
    other.release()
    assert Claim(device, folder).left_behind() is False


def test_a_device_made_anew_was_left_by_nobody(device, folder, monkeypatch):
    die(device, folder)
    monkeypatch.setattr(module, "_identity", lambda path: "another boot")
    assert Claim(device, folder).left_behind() is False


def test_a_device_that_is_not_there_is_nobodys(tmp_path, folder):
    claim = Claim(str(tmp_path / "video77"), folder)
    claim.take()
    assert (claim.owner(), claim.left_behind(), folder.exists()) == (None, False, False)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff\xfe\0", b"12", b"999999999999999999999 x", b"A" * 5000]
)
def test_a_broken_file_means_nothing(device, folder, content):
    folder.mkdir(mode=0o700)
    (folder / "video10").write_bytes(content)
    claim = Claim(device, folder)
    assert (claim.owner(), claim.left_behind()) == (None, False)
    claim.take()
    assert Claim(device, folder).owner() == os.getpid()
    claim.release()


def test_a_folder_or_a_file_of_somebody_else_is_not_trusted(device, folder, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    folder.mkdir(mode=0o700)
    (folder / "video10").symlink_to(target)
    claim = Claim(device, folder)
    claim.take()
    assert claim.owner() is None
    claim.release()
    assert target.read_text() == "precious"
    (folder / "video10").unlink()
    folder.chmod(0o777)
    claim.take()
    assert list(folder.iterdir()) == []


def test_a_place_that_cannot_be_written_costs_nothing(device, tmp_path):
    (tmp_path / "file").touch()
    claim = Claim(device, tmp_path / "file")
    claim.take()
    claim.release()
    assert claim.owner() is None


def test_the_place_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert claims_folder() == tmp_path / "doppelcam"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert str(os.getuid()) in claims_folder().name
