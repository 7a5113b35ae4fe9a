"""``bench --loopback`` through a real virtual camera: another process sees what frame age says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.vm import rig

_FPS = 3


@pytest.mark.skipif(
    os.environ.get("VCAM_VM_BENCH") != "1",
    reason="an emulated processor takes minutes for it: run it with VCAM_VM_BENCH=1 on a machine with KVM",
)
@pytest.mark.timeout(240)
def test_what_another_process_sees_agrees_with_frame_age(newest_loopback):
    line = [
        sys.executable, "-m", "realtime", "bench", "--loopback", newest_loopback, "--size", "640x360",
        "--face-width", "150", "--fps", f"{_FPS}", "--seconds", "8", "--json",
    ]  # fmt: skip
    done = subprocess.run(
        line, cwd=rig.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    seen = document["loopback"]
    assert seen["through"] == newest_loopback
    assert seen["backwards"] == 0
    # Of those that were worked on; what is repeated is not seen twice.
    assert seen["seen"] >= document["frames"]["processed"] / 2 > 0
    assert seen["agrees"], (seen, document["frame_age_ms"])
    assert abs(seen["p50_ms"] - document["frame_age_ms"]["p50"]) < 1000 / _FPS
