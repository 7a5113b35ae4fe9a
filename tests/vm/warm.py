"""Compiles, outside of the slow machine, all that a session there needs: python -m tests.vm.warm

With NUMBA_CPU_NAME=generic and NUMBA_CPU_FEATURES empty on both sides, what is compiled here fits there.
"""

from __future__ import annotations

import time

from realtime.assemble import assemble
from realtime.frame import Frame
from realtime.settings.config import Config
from tests.vm.face import PHOTO, SIZE, scene


def main() -> None:
    parts = assemble(Config(source="pattern", face=(PHOTO,), sink=("null",), size=SIZE))
    parts.pipeline.open(print)
    try:
        trusted = [parts.pipeline.process(Frame(scene(), n, time.monotonic_ns())).trusted for n in range(4)]
    finally:
        parts.pipeline.close()
    assert trusted[-1], "the face in the scene is not swapped"


if __name__ == "__main__":
    main()
