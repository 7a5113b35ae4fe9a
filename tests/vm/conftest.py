"""Real devices: v4l2loopback and vivid, in the machine that tools/vcam_vm boots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vm import rig


def pytest_collection_modifyitems(items):
    # The hook is handed the whole run's tests, not only those of this folder.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session", autouse=True)
def _in_the_machine():
    if os.environ.get("VCAM_VM") != "1":
        pytest.skip("needs real devices: run .ci/vm, or tools/vcam_vm/vcam_vm.sh run -- …")


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
