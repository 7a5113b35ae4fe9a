"""The second process of ``bench --loopback``: sees what any other program sees, and when.

``python -m realtime.bench.reader PICTURE [DEVICE]`` watches the shared picture, or the camera DEVICE, or for ``-`` the
stream whose address is the first line of its input, until the shared picture says stop; then it prints one line for
each frame number it saw: the number and the monotonic time, ns.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from engines.errors import DeviceError, DoppelcamError
from engines.faces import Image
from realtime.bench.shared import SharedPicture
from realtime.sources.camera import open_capture
from realtime.sources.pattern import MIN_SIZE, decode_number

_POLL_S: Final = 0.0003
_RETRY_S: Final = 0.1
_ORPHANED_EVERY: Final = 256
_LISTEN_S: Final = (2.0, 0.5)
"""How long a stream is waited for: for its beginning, and for more of it."""
FROM_INPUT: Final = "-"
"""In place of a device: a stream."""

Pictures = Iterator[tuple[Image, int]]
"""H×W×3 pictures as they come, and when: monotonic ns."""


def watch(pictures: Pictures, ended: Callable[[], bool]) -> list[tuple[int, int]]:
    """Notes each frame number when it is seen first.

    Args:
        pictures: What is seen.
        ended: Asked after each picture.

    Returns:
        Numbers and times, in the order in which they were seen.
    """
    seen: list[tuple[int, int]] = []
    for picture, at in pictures:
        number = decode_number(picture)
        if number is not None and (not seen or seen[-1][0] != number):
            seen.append((number, at))
        if ended():
            break
    return seen


def from_memory(shared: SharedPicture, ended: Callable[[], bool]) -> Pictures:
    """Every picture of the shared memory that is there long enough to be looked at."""
    last = 0
    while not ended():
        seq = shared.seq()
        if seq == last or seq % 2:
            time.sleep(_POLL_S)
            continue
        at = time.monotonic_ns()
        rows = shared.rows(MIN_SIZE[1])
        if rows is not None:
            last = seq
            yield np.broadcast_to(rows[..., None], (*rows.shape, 3)), at


def from_device(device: str, ended: Callable[[], bool]) -> Pictures:
    """Every picture of a camera, as any program gets it."""
    capture = open_capture(device)
    while not capture.isOpened():
        # It is a camera only once somebody sends to it.
        capture.release()
        if ended():
            return
        time.sleep(_RETRY_S)
        capture = open_capture(device)
    try:
        while not ended():
            got = capture.grab()
            at = time.monotonic_ns()
            ok, picture = capture.retrieve() if got else (False, None)
            if not ok or picture is None:
                time.sleep(_POLL_S)
                continue
            yield np.asarray(picture, np.uint8), at
    finally:
        capture.release()


def from_stream(url: str, ended: Callable[[], bool]) -> Pictures:
    """Every picture of a stream, as soon as it can be decoded: nothing is kept to smooth it."""
    import av

    # What is studied at length or kept by threads is shown late.
    options = {"probesize": "200000", "analyzeduration": "300000", "fflags": "nobuffer+noparse"}
    while not ended():
        try:
            with av.open(url, options=options, timeout=_LISTEN_S) as container:
                video = container.streams.video[0]
                video.thread_type, video.codec_context.thread_count = "SLICE", 1
                for picture in container.decode(video):
                    at = time.monotonic_ns()
                    yield np.asarray(picture.to_ndarray(format="bgr24"), np.uint8), at
        except (av.FFmpegError, OSError, IndexError):
            # It has not begun, or it is over.
            time.sleep(_RETRY_S)


def main(arguments: Sequence[str]) -> int:
    """Watches until told to stop, and says what it saw."""
    parent, asked = os.getppid(), 0
    try:
        shared = SharedPicture(Path(arguments[0]))
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 1

    def ended() -> bool:
        nonlocal asked
        asked += 1
        # Whoever started it may have been killed.
        return shared.stopped or (asked % _ORPHANED_EVERY == 0 and os.getppid() != parent)

    try:
        if len(arguments) < 2:
            pictures = from_memory(shared, ended)
        elif arguments[1] == FROM_INPUT:
            pictures = from_stream(sys.stdin.readline().strip(), ended)
        else:
            pictures = from_device(arguments[1], ended)
        shared.be_ready()
        for number, at in watch(pictures, ended):
            print(number, at)
    except DoppelcamError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shared.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
