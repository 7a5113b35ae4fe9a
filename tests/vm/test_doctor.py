"""The doctor on real devices: what is well is said to be well, and each fault has its line."""

from __future__ import annotations

from pathlib import Path

import cv2

from realtime.doctor.devices import check_cameras, check_virtual_cameras, try_cameras, try_virtual_cameras
from realtime.sinks.loopback_module import LoopbackModule
from realtime.sinks.virtualcam import list_virtual_cameras
from realtime.sources.camera import list_cameras
from tests.vm import rig


def virtual():
    return list(check_virtual_cameras(list_virtual_cameras()))


def test_a_camera_and_a_virtual_camera_that_are_well(loopback, version, vivid):
    (camera,) = check_cameras(list_cameras())
    assert rig.VIVID_NAME in camera.found
    # Vivid gives 12.5 fps at 720p, and that is said with the size that is smooth.
    assert (camera.state, camera.fix) == ("missing", "Use --size 640x480")
    first, module = virtual()
    assert (first.state, first.found) == ("ok", f"{rig.LABEL} ({loopback})")
    # Old versions do not tell which one they are.
    assert module.found.startswith(("v4l2loopback. ", f"v4l2loopback {version}. "))
    assert "modules-load.d" in module.fix


def test_tried_the_colours_come_back_in_every_size(newest_loopback):
    checks = list(try_virtual_cameras(list_virtual_cameras()))
    assert [check.state for check in checks] == ["ok"] * 3, checks


def test_tried_the_measured_rate_is_said(vivid):
    (check,) = try_cameras(list_cameras(), seconds=1.0)
    assert check.state in ("ok", "missing"), check
    assert "at 1280×720, measured" in check.found


def test_one_that_is_held_is_said_to_be_held(newest_loopback, vivid):
    held = cv2.VideoCapture(vivid, cv2.CAP_V4L2)
    try:
        assert held.read()[0]
        (check,) = try_cameras(list_cameras(), seconds=0.5)
    finally:
        held.release()
    assert check.state == "failed"
    assert "Another program may hold it" in check.fix
    with rig.forked(lambda: rig.feed(newest_loopback)):
        rig.eventually(lambda: rig.gives_pictures(newest_loopback), "the other one sends")
        check, _ = virtual()
        assert check.state == "failed"
        assert check.fix.startswith("End it first: kill")


def test_without_exclusive_caps_and_without_a_module():
    version = rig.versions()[-1]
    rig.load_loopback(version, exclusive=False)
    check, _ = virtual()
    assert check.state == "failed"
    assert "exclusive_caps" in check.found
    assert check.fix.startswith(
        "sudo modprobe -r v4l2loopback && sudo modprobe v4l2loopback exclusive_caps=1"
    )
    rig.shell("rmmod v4l2loopback")
    (check,) = virtual()
    assert (check.state, check.name) == ("missing", "virtual camera")
    # The module's file lies where the running kernel looks for it, or not: the machine decides.
    assert "modprobe v4l2loopback" in check.fix or Path("/.dockerenv").exists()
    assert LoopbackModule().version == ""
