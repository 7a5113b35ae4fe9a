"""The line that gives a user a device depends on why it is refused."""

from __future__ import annotations

import os

import pytest

from realtime import device_access
from realtime.device_access import permission_fix


@pytest.fixture
def device(tmp_path, monkeypatch):
    path = tmp_path / "video0"
    path.touch()
    path.chmod(0o660)
    monkeypatch.setattr(device_access, "_is_member", lambda gid: False)
    monkeypatch.setattr(device_access, "_is_listed", lambda name: False)
    monkeypatch.setattr(device_access, "_group", lambda gid: "video")
    monkeypatch.setattr(
        device_access.Path, "stat", lambda self: os.stat_result((0o20660, 0, 0, 1, 0, 44, 0, 0, 0, 0))
    )
    return path


def test_usually_by_joining_its_group(device):
    assert permission_fix(str(device)) == 'sudo usermod -aG video "$USER", then log out and in again'


def test_a_group_without_a_name(device, monkeypatch):
    monkeypatch.setattr(device_access, "_group", lambda gid: None)
    assert "--group-add 44" in permission_fix(str(device))


def test_joined_but_not_logged_in_anew(device, monkeypatch):
    monkeypatch.setattr(device_access, "_is_listed", lambda name: True)
    assert "log out and in again" in permission_fix(str(device))
    assert "usermod" not in permission_fix(str(device))


@pytest.mark.parametrize(("mode", "gid"), [(0o20600, 44), (0o20660, 0), (0o20640, 44), (0o20000, 44)])
def test_a_group_that_would_not_help(device, monkeypatch, mode, gid):
    about = os.stat_result((mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))
    monkeypatch.setattr(device_access.Path, "stat", lambda self: about)
    assert f"chmod 660 {device}" in permission_fix(str(device))


def test_already_a_member(device, monkeypatch):
    monkeypatch.setattr(device_access, "_is_member", lambda gid: True)
    assert permission_fix(str(device)).startswith("sudo chmod")


def test_a_device_that_is_gone(tmp_path):
    assert "usermod -aG video" in permission_fix(str(tmp_path / "none"))
