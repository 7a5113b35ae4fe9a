"""How long pasting a network's face back takes, ours and the usual way in turn, in one run.

    python -m tools.bench_paste [--faces 300,430,600] [--crop 256] [--runs 60] [--own] [--square]

*Ours* is what follows the network: masks, colour match, baking and one fused pass over the face's region. *The usual
way* is what programs do with OpenCV: the crop and its mask warped over the face's region and blended there, in eight
bits at its fastest (*fast*, no colour match), or in floating point with a blurred mask (*float*). Each writes into a
frame that another thread has just filled, as a camera's is; with ``--own`` the same thread filled it. ``--square``: the
crop itself is so wide, with an ellipse in it, and no face is tracked.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable

import cv2
import numpy as np

from engines.analysis.align import TEMPLATES, crop_affine
from engines.faces import Face, Patch
from engines.kernels import mask as mask_kernels
from engines.kernels import paste as paste_kernels
from engines.kernels import warp as warp_kernels
from engines.kernels.warp import Warp, inverse
from engines.swap.masks.masks import Box, Ellipse, Masks, Oval
from engines.swap.neural.colour import ColourMatch
from engines.swap.neural.paste import Baker, paint
from realtime.choosing.select import Selector
from realtime.clock import SystemClock
from realtime.sources.portrait import PortraitSource
from realtime.tracking.track import Tracker

_TEMPLATE = "arcface_128"
Work = Callable[[np.ndarray], None]


def ours(crop: np.ndarray, new: np.ndarray, face: Face, affine: np.ndarray, square: bool) -> Work:
    """All that follows the network."""
    side = len(crop)
    masks = Masks([Box(), Ellipse(_TEMPLATE) if square else Oval()], side)
    mask, colours, baker = np.ones((side, side), np.float32), ColourMatch(), Baker(side)

    def paste(image: np.ndarray) -> None:
        mask[:] = 1
        masks.narrow(crop, face, affine, mask)
        gain, offset = colours.match(1, crop, new, mask)
        layer = baker.bake(new, mask, gain, offset, affine)
        assert layer is not None
        paint(image, layer)

    return paste


def usual_ways(new: np.ndarray, affine: np.ndarray, mask: np.ndarray) -> tuple[Work, Work]:
    """The crop and its mask warped over the face's region by OpenCV: in eight bits, and in floating point."""
    side = len(new)
    corners = np.array([[0, 0, 1], [side, 0, 1], [0, side, 1], [side, side, 1]]) @ inverse(affine).T
    low, high = np.floor(corners.min(0)).astype(int), np.ceil(corners.max(0)).astype(int)
    low, high = np.maximum(low, 0), np.minimum(high, (1920, 1080))
    moved = affine.copy()
    moved[:, 2] += affine[:, :2] @ low
    size, flags = (int(high[0] - low[0]), int(high[1] - low[1])), cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    eight, alpha = new.astype(np.uint8), cv2.cvtColor((mask * 255).astype(np.uint8), cv2.COLOR_GRAY2BGR)

    def fast(image: np.ndarray) -> None:
        region = image[low[1] : high[1], low[0] : high[0]]
        warped = cv2.warpAffine(eight, moved, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        opacity = cv2.warpAffine(alpha, moved, size, flags=flags)
        kept = cv2.multiply(region, 255 - opacity, scale=1 / 255)
        cv2.add(kept, cv2.multiply(warped, opacity, scale=1 / 255), dst=region)

    def floating(image: np.ndarray) -> None:
        region = image[low[1] : high[1], low[0] : high[0]]
        opacity = cv2.warpAffine(mask, moved, size, flags=flags)[..., None]
        warped = cv2.warpAffine(eight, moved, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        region[:] = region * (1 - opacity) + warped * opacity

    return fast, floating


def scene(wanted: int, crop: int, square: bool) -> tuple[np.ndarray, Face, np.ndarray]:
    """A frame, the face in it, and where its crop lies."""
    source = PortraitSource(None, (1920, 1080), 30, SystemClock(), face_width=wanted)
    source.open()
    frame = source.read().image.copy()
    tracker = Tracker(468, Selector("largest", 1))
    tracker.open(lambda _line: None)
    (face,) = tracker.track(frame, 1)
    tracker.close()
    source.close()
    if not square:
        return frame, face, np.asarray(crop_affine(_TEMPLATE, crop, face.points), np.float64)
    scale, turn = crop / wanted, 0.1
    affine = scale * np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0]])
    affine[:, 2] = crop / 2 - affine[:, :2] @ [960, 540]
    five = (TEMPLATES[_TEMPLATE] * crop - affine[:, 2]) @ np.linalg.inv(affine[:, :2]).T
    return frame, Face(1, np.c_[five, np.zeros(5)].astype(np.float32), 1.0, Patch(frame, affine)), affine


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faces", default="300,430,600", help="widths of the face, pixels")
    parser.add_argument("--crop", type=int, default=256, help="side of the network's picture")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--own", action="store_true", help="the frame was filled by the same thread")
    parser.add_argument("--square", action="store_true", help="the crop is so wide, and not the face")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    for kernels in (warp_kernels, paste_kernels, mask_kernels):
        kernels.warm_up()
    print("median (quartiles), ms")
    print("wide    crop                ours                fast                float               fast/ours")
    for wanted in map(int, options.faces.split(",")):
        frame, face, affine = scene(wanted, options.crop, options.square)
        crop, one, nought = (
            np.empty((options.crop, options.crop, 3), np.float32),
            np.ones(3, np.float32),
            np.zeros(3),
        )
        warp = Warp()
        new = np.random.default_rng(0).uniform(0, 255, crop.shape).astype(np.float32)
        mask = np.empty(crop.shape[:2], np.float32)
        Ellipse(_TEMPLATE).write(crop, face, affine, mask)
        works = [
            lambda image: warp.crop(image, affine, crop, one, nought.astype(np.float32)),  # noqa: B023
            ours(crop, new, face, affine, options.square),
            *usual_ways(new, affine, mask),
        ]
        buffers = [np.empty_like(frame) for _ in range(8)]
        taken: list[list[float]] = [[] for _ in works]
        for run in range(options.runs + 5):
            for number, work in enumerate(works):
                buffer = buffers[(run * len(works) + number) % len(buffers)]
                _fill(buffer, frame, options.own)
                start = time.perf_counter_ns()
                work(buffer)
                taken[number].append((time.perf_counter_ns() - start) / 1e6)
        columns = [_spread(times[5:]) for times in taken]
        ratio = _spread([b / a for a, b in zip(taken[1][5:], taken[2][5:], strict=True)])
        width = wanted if options.square else face.width
        print(f"{width:4.0f}    " + "".join(f"{column:20}" for column in columns) + ratio)
    return 0


def _fill(buffer: np.ndarray, frame: np.ndarray, own: bool) -> None:
    if own:
        np.copyto(buffer, frame)
        return
    camera = threading.Thread(target=np.copyto, args=(buffer, frame))
    camera.start()
    camera.join()


def _spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
