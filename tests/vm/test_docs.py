"""The documentation's commands that set the virtual camera up, as they stand there, on a real module."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests import pages
from tests.vm import rig

BLOCKS = [block for block in pages.every_block() if block.word == pages.TESTED_VM]


@pytest.fixture
def programs(tmp_path):
    """``sudo``, and a ``modprobe`` that takes the module from where it was built; everything else is the real thing.

    This machine's modules lie in a folder that nothing is installed into, so what ``modprobe`` reads for options is
    asked of the real one and handed to ``insmod``.
    """
    rig.load_loopback(rig.versions()[-1])
    subprocess.run(["rmmod", "v4l2loopback"], check=True)
    module = Path(os.environ["VCAM_VM_MODULES"]) / rig.versions()[-1] / "v4l2loopback.ko"
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "modprobe").write_text(
        "#!/bin/bash\nset -e\n"
        'if [ "$1" = -r ]; then [ ! -e /sys/module/$2 ] || exec rmmod "$2"; exit 0; fi\n'
        "shift\n"
        "said=$(/sbin/modprobe -c | sed -n 's/^options v4l2loopback //p')\n"
        f'exec insmod {shlex.quote(str(module))} $said "$@"\n'
    )
    for name in ("sudo", "modprobe"):
        (tmp_path / name).chmod(0o755)
    yield f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin"
    for written in ("/etc/modules-load.d/v4l2loopback.conf", "/etc/modprobe.d/v4l2loopback.conf"):
        Path(written).unlink(missing_ok=True)
    if Path("/sys/module/v4l2loopback").exists():
        subprocess.run(["rmmod", "v4l2loopback"], check=True)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_page_sets_the_camera_up(block, programs):
    script = "\n".join(block.commands())
    done = subprocess.run(
        ["bash", "-euc", script],
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = re.findall(r'card_label="?([\w,-]+)', script)
    if "modprobe v4l2loopback" in script:
        names = sorted(path.read_text().strip() for path in Path("/sys/class/video4linux").glob("*/name"))
        for label in wanted[-1].split(","):
            assert label in names, names
