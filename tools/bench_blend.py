"""How long painting a face takes, ours and the usual way in turn, in one run.

    python -m tools.bench_blend [--faces 300,430,600] [--runs 60] [--own]

*Ours* is ``MeshSwapper.blend``: the photo sampled, lit and blended triangle by triangle, straight into the frame, with
the live eyes and mouth laid into their openings first. *The usual way* is what programs that paste a square crop back
do, at its fastest: the crop and its mask warped over the face's region by OpenCV and blended there in eight bits, with
no light and no expression. Both write into a frame that another thread has just filled, as a camera's is; with
``--own`` the frame was filled by the same thread, and lies in this core's cache.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable

import cv2
import numpy as np

from engines.analysis.source import SourceReader
from engines.analysis.topology import OVAL
from engines.swap.mesh.mesh import MeshSwapper
from realtime.choosing.select import Selector
from realtime.clock import SystemClock
from realtime.settings.config import BENCH
from realtime.sources.portrait import PortraitSource
from realtime.tracking.track import Tracker


def usual_way(frame: np.ndarray, points: np.ndarray) -> Callable[[np.ndarray], None]:
    """A 256×256 crop and an elliptic mask, pasted over the face's region."""
    oval = points[list(OVAL), :2]
    low, high = np.floor(oval.min(0)).astype(int), np.ceil(oval.max(0)).astype(int)
    width, height = (high - low).tolist()
    crop = cv2.resize(frame[low[1] : high[1], low[0] : high[0]], (256, 256))
    mask = np.zeros((256, 256), np.uint8)
    cv2.ellipse(mask, (128, 128), (110, 120), 0, 0, 360, 255, -1)
    mask = cv2.cvtColor(cv2.GaussianBlur(mask, (0, 0), 8), cv2.COLOR_GRAY2BGR)
    affine = np.array([[width / 256, 0.02, 0], [-0.02, height / 256, 0]], np.float32)

    def paste(image: np.ndarray) -> None:
        region = image[low[1] : high[1], low[0] : high[0]]
        warped = cv2.warpAffine(crop, affine, (width, height), borderMode=cv2.BORDER_REPLICATE)
        alpha = cv2.warpAffine(mask, affine, (width, height))
        kept = cv2.multiply(region, 255 - alpha, scale=1 / 255)
        cv2.add(kept, cv2.multiply(warped, alpha, scale=1 / 255), dst=region)

    return paste


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faces", default="300,430,600", help="widths of the face, pixels")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--own", action="store_true", help="the frame was filled by the same thread")
    options = parser.parse_args()
    reader = SourceReader()
    swapper = MeshSwapper(reader.read(BENCH.face[0]))
    swapper.open(lambda _line: None)
    print(
        "face    ours ms: median (quartiles)    usual ms: median (quartiles)    ours/usual: median (quartiles)"
    )
    for wanted in map(int, options.faces.split(",")):
        source = PortraitSource(None, (1920, 1080), 30, SystemClock(), face_width=wanted)
        source.open()
        tracker = Tracker(swapper.landmarks, Selector("largest", 1))
        tracker.open(lambda _line: None)
        taken = source.read()
        frame = taken.image.copy()
        (face,) = tracker.track(frame, 1)
        layer, paste = swapper.swap(frame, face), usual_way(frame, face.points)
        buffers = [np.empty_like(frame) for _ in range(8)]

        def timed(
            work: Callable[[np.ndarray], None],
            run: int,
            frame: np.ndarray = frame,
            buffers: list[np.ndarray] = buffers,
        ) -> float:
            buffer = buffers[run % len(buffers)]
            if options.own:
                np.copyto(buffer, frame)
            else:
                camera = threading.Thread(target=np.copyto, args=(buffer, frame))
                camera.start()
                camera.join()
            start = time.perf_counter_ns()
            work(buffer)
            return (time.perf_counter_ns() - start) / 1e6

        pairs = [
            (timed(lambda image, layer=layer: swapper.blend(image, layer), run), timed(paste, run))
            for run in range(options.runs + 5)
        ][5:]
        ours, usual = zip(*pairs, strict=True)
        ratio = [a / b for a, b in pairs]
        columns = [
            f"{q[1]:.2f} ({q[0]:.2f} to {q[2]:.2f})" for q in (quartiles(v) for v in (ours, usual, ratio))
        ]
        print(f"{face.width:4.0f}    {columns[0]:30} {columns[1]:31} {columns[2]}")
        tracker.close()
        source.close()
    return 0


def quartiles(values: list[float] | tuple[float, ...]) -> list[float]:
    return statistics.quantiles(values, n=4)


if __name__ == "__main__":
    raise SystemExit(main())
