"""Another program that feeds a virtual camera, to be killed: python -m tests.vm.feed DEVICE WIDTHxHEIGHT FPS."""

from __future__ import annotations

import sys
import time

from tests.vm import rig


def main() -> None:
    device, size, fps = sys.argv[1:]
    width, height = map(int, size.split("x"))
    target = rig.sink(device)
    target.open((width, height), float(fps))
    picture = rig.bars((width, height))
    for number in range(1_000_000):
        target.send(rig.frame(picture, number))
        if number == 0:
            print("sending", flush=True)
        time.sleep(1 / float(fps))


if __name__ == "__main__":
    main()
