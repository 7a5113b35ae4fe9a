"""Real devices: v4l2loopback and vivid, in the machine that tools/vcam_vm boots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from tests.vm import rig

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Marks these tests, and puts last those that need a session: it is made while the others run."""
    ours = [item for item in items if _HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.vm)
    items.sort(key=_needs_a_session)


def _needs_a_session(item):
    return _HERE in item.path.parents and "live" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session", autouse=True)
def _in_the_machine():
    if os.environ.get("VCAM_VM") != "1":
        pytest.skip("needs real devices: run .ci/vm, or tools/vcam_vm/vcam_vm.sh run -- …")
    # OpenCV's threads would not survive a fork, and there are few processors.
    cv2.setNumThreads(1)


@pytest.fixture(scope="session", autouse=True)
def process(request, _in_the_machine):
    """``tests.vm.live``, made and waiting to be told to begin; None where no test needs it."""
    if not any(_needs_a_session(item) for item in request.session.items):
        yield None
        return
    live = subprocess.Popen(
        [sys.executable, "-u", "-X", "faulthandler", "-m", "tests.vm.live"],
        cwd=rig.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    yield live
    live.kill()
    live.wait()
    live.stdin.close()
    live.stdout.close()


@pytest.fixture(params=rig.versions(), scope="module")
def version(request):
    """Every version of v4l2loopback that was built."""
    return request.param


@pytest.fixture
def loopback(version):
    """One virtual camera with exclusive_caps, fresh."""
    rig.load_loopback(version)
    return rig.LOOPBACK


@pytest.fixture
def newest_loopback():
    """The same, of the newest version only: where the module makes no difference."""
    rig.load_loopback(rig.versions()[-1])
    return rig.LOOPBACK


@pytest.fixture
def vivid():
    """A webcam, fresh."""
    rig.load_vivid()
    return rig.VIVID
