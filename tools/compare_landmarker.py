"""Stillness and lag of the tracker against MediaPipe's own, on the same frames: ``python -m tools.compare_landmarker``.

Needs MediaPipe in the environment (``pip install mediapipe``; it brings an OpenCV of its own). With ``--task FILE`` it
is the FaceLandmarker of that file in video mode; without, the FaceMesh solution that releases up to 0.10 carry with
their networks. Each ``--clip FILE`` is followed, too, in place of a face whose place is known. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from realtime.choosing.select import Selector
from realtime.tracking.track import Tracker
from tests.engines.scenes import placed

FPS, WIDTH, SIZE = 30, 430, (960, 720)
SIGMA = 4.0
HERTZ, MOST = 1.5, 0.5
"""The motion to and fro, and the most of its speed, face widths a second: as in ``tools/compare``."""

DELAYS = np.arange(-3.0, 3.01, 0.05)
"""Frames by which a face in a clip may be late."""

Follow = Callable[[np.ndarray, int], "np.ndarray | None"]


def ours(filtered: bool, points: int = 468) -> Follow:
    """The tracker, with and without its filter."""
    tracker = Tracker(points, Selector("owner", 1))
    tracker.open(lambda line: None)

    def follow(image: np.ndarray, at_ns: int) -> np.ndarray | None:
        if not filtered:
            for track in tracker._tracks:
                track.smooth.reset()
        faces = tracker.track(image, at_ns)
        return faces[0].points[:468, :2].copy() if faces else None

    return follow


def solution(refine: bool) -> Follow:
    """MediaPipe's FaceMesh solution, following."""
    import mediapipe

    mesh = mediapipe.solutions.face_mesh.FaceMesh(refine_landmarks=refine, max_num_faces=1)

    def follow(image: np.ndarray, at_ns: int) -> np.ndarray | None:
        found = mesh.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).multi_face_landmarks
        return _pixels(found[0].landmark, image) if found else None

    return follow


def landmarker(task: str) -> Follow:
    """MediaPipe's FaceLandmarker, in video mode, which filters."""
    import mediapipe
    from mediapipe.tasks.python import BaseOptions, vision

    options = vision.FaceLandmarkerOptions(
        base_options=BaseOptions(model_asset_path=task), running_mode=vision.RunningMode.VIDEO
    )
    network = vision.FaceLandmarker.create_from_options(options)

    def follow(image: np.ndarray, at_ns: int) -> np.ndarray | None:
        rgb = mediapipe.Image(
            image_format=mediapipe.ImageFormat.SRGB, data=cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        )
        found = network.detect_for_video(rgb, at_ns // 1_000_000).face_landmarks
        return _pixels(found[0], image) if found else None

    return follow


def _pixels(landmarks, image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    return np.array([(one.x * width, one.y * height) for one in landmarks[:468]], np.float32)


def tremble(follow: Follow, who: str) -> float:
    """Root mean square of how far a point is from its mean place, pixels, on a frozen frame with fresh noise."""
    still = placed(who, SIZE, WIDTH, (480, 360)).astype(np.float32)
    rng, seen = np.random.default_rng(0), []
    for i in range(90):
        noisy = np.clip(still + SIGMA * rng.standard_normal(still.shape, np.float32), 0, 255).astype(np.uint8)
        points = follow(noisy, (i + 1) * 1_000_000_000 // FPS)
        if i >= 30:
            assert points is not None, "the face was lost"
            seen.append(points)
    apart = np.asarray(seen) - np.mean(seen, axis=0)
    return float(np.sqrt((apart**2).sum(2).mean()))


def lag(follow: Follow, who: str) -> float:
    """By how many ms the mean of the points is behind the head, that moves to and fro."""
    reach, at, where = MOST * WIDTH / (2 * np.pi * HERTZ), np.arange(120) / FPS, []
    for i, t in enumerate(at):
        image = placed(who, SIZE, WIDTH, (480 + reach * np.sin(2 * np.pi * HERTZ * t), 360))
        points = follow(image, (i + 1) * 1_000_000_000 // FPS)
        where.append(np.nan if points is None else points[:, 0].mean())
    kept = slice(30, None)
    wave = np.exp(-2j * np.pi * HERTZ * at[kept])
    real = np.sin(2 * np.pi * HERTZ * at[kept])
    seen = np.asarray(where)[kept] - np.nanmean(where[30:])
    return float(np.angle((real * wave).sum() / (seen * wave).sum()) / (2 * np.pi * HERTZ) * 1e3)


def clip(path: Path) -> tuple[list[np.ndarray], float]:
    """Every frame, BGR, and how many there are in a second."""
    reader, frames = cv2.VideoCapture(str(path)), []
    fps = reader.get(cv2.CAP_PROP_FPS)
    while (read := reader.read())[0]:
        frames.append(read[1])
    reader.release()
    if len(frames) < FPS:
        raise SystemExit(f"{path} is no clip of a second or more.")
    return frames, fps if 1 <= fps <= 1000 else FPS


def followed(follow: Follow, frames: list[np.ndarray], fps: float) -> tuple[np.ndarray, float]:
    """Points of every frame (N, 468, 2), NaN where there is no face, and the median time of a frame, ms."""
    points, spent = np.full((len(frames), 468, 2), np.nan, np.float32), []
    for i, frame in enumerate(frames):
        began = time.perf_counter()
        found = follow(frame, round((i + 1) * 1e9 / fps))
        spent.append(time.perf_counter() - began)
        if found is not None:
            points[i] = found
    return points, float(np.median(spent) * 1e3)


def restless(points: np.ndarray) -> float:
    """How far a point is from the middle between the frames before and after it, root mean square, pixels.

    Of a still face that trembles by σ in every coordinate it is σ·√3; what a moving face adds is the same for all.
    """
    apart = points[1:-1] - (points[:-2] + points[2:]) / 2
    return float(np.sqrt(np.nanmean((apart**2).sum(2))))


def behind(points: np.ndarray, truth: np.ndarray, fps: float) -> float:
    """By how many ms points are late: the delay at which a calm course of the face fits them best.

    Args:
        points: (N, 468, 2) as followed.
        truth: The same, unfiltered; it is smoothed here, to both sides, so that it stays where it is in time.
        fps: Frames a second.
    """
    window = np.hanning(7)[1:-1]
    where = np.arange(len(truth))
    seen = np.isfinite(truth[:, 0, 0]) & np.isfinite(points[:, 0, 0])
    anchors = slice(0, 468, 13)
    late = []
    flat = [one[:, anchors].reshape(len(one), -1).T for one in (truth, points)]
    pairs = [[np.interp(where, where[seen], row[seen]) for row in both] for both in zip(*flat, strict=True)]
    inner = slice(8, -8)
    for delay in DELAYS:
        error = 0.0
        for real, given in pairs:
            calm = np.convolve(real, window / window.sum(), "same")
            off = (given - np.interp(where - delay, where, calm))[inner]
            # Where exactly a landmark lies is a matter of the network; when it moves is what counts.
            error += float(((off - off.mean()) ** 2).sum())
        late.append(error)
    return float(DELAYS[int(np.argmin(late))] * 1e3 / fps)


def clip_table(paths: list[Path], rows: dict[str, Callable[[], Follow]]) -> None:
    """Prints what each of them makes of each clip."""
    print("\n| clip | | found in | restless, px | lag, ms | time, ms |\n|---|---|--:|--:|--:|--:|")
    for path in paths:
        frames, fps = clip(path)
        truth, _ = followed(ours(False), frames, fps)
        for name, make in rows.items():
            points, spent = followed(make(), frames, fps)
            found = int(np.isfinite(points[:, 0, 0]).sum())
            print(
                f"| {path.stem} | {name} | {found} of {len(frames)} | {restless(points):.2f} | "
                f"{behind(points, truth, fps):.0f} | {spent:.1f} |",
                flush=True,
            )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", help="face_landmarker.task")
    parser.add_argument("--clip", type=Path, action="append", default=[], help="follow the face in it, too")
    asked = parser.parse_args()
    task = asked.task
    rows: dict[str, Callable[[], Follow]] = {
        "doppelcam, 468": lambda: ours(True),
        "doppelcam, 468, unfiltered": lambda: ours(False),
        "doppelcam, 478": lambda: ours(True, 478),
    }
    if task:
        rows["MediaPipe FaceLandmarker"] = lambda: landmarker(task)
    else:
        rows["MediaPipe FaceMesh, 468"] = lambda: solution(False)
        rows["MediaPipe FaceMesh, 478"] = lambda: solution(True)
    print("| | tremble, px: astronaut | hopper | lag, ms: astronaut | hopper |\n|---|--:|--:|--:|--:|")
    for name, make in rows.items():
        still = [tremble(make(), who) for who in ("astronaut", "hopper")]
        late = [lag(make(), who) for who in ("astronaut", "hopper")]
        print(f"| {name} | {still[0]:.2f} | {still[1]:.2f} | {late[0]:.1f} | {late[1]:.1f} |", flush=True)
    if asked.clip:
        clip_table(asked.clip, rows)


if __name__ == "__main__":
    main()
