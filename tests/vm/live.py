"""``doppelcam run`` from vivid to the loopback, with a face before the camera: python -m tests.vm.live

Only the face is added; everything else is what the command line makes. It is made at once, begins when it is told a
line, and says its state, line by line.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

from realtime.assemble import assemble
from realtime.settings.config import Config
from tests.vm import rig
from tests.vm.face import PHOTO, FaceIn

FPS = 5.0


def main() -> int:
    config = Config(
        source=f"camera:{rig.VIVID_NAME}", face=(PHOTO,), sink=(f"virtualcam:{rig.LABEL}",), size=rig.SMALL, fps=FPS,
    )  # fmt: skip
    parts = assemble(config, watch=FaceIn)

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # A child of a test may have been told to ignore Ctrl-C.
    signal.signal(signal.SIGINT, interrupted)
    print("made")
    sys.stdin.readline()
    session = parts.session(lambda line: print(f"preparing: {line}"))
    said = ""
    try:
        session.start()
        while not session.wait(parts.clock.now_ns() + 100_000_000):
            snapshot = session.snapshot()
            state = f"{snapshot.state} {snapshot.ready}"
            if state != said:
                said = state
                print(f"state: {snapshot.state}")
    except KeyboardInterrupt:
        began = time.monotonic()
        session.stop()
        print(f"stopped in {time.monotonic() - began:.1f} s")
        return 130
    session.stop()
    session.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
