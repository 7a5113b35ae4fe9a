"""The golden pictures: what a few swaps look like. ``python -m tests.golden.make`` paints them anew.

Look at each of them before it is committed: from then on it is how it has to be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from engines.faces import Image
from engines.swap.mesh.mesh import MeshSwapper
from engines.swap.mesh.texture import unwrap
from tests.engines.scenes import face_in, landmarks, placed, source

FOLDER = Path(__file__).parent
LARGEST_BYTES = 60_000
SIZE, WIDTH, AT = (168, 184), 116.0, (84, 98)


def swap(
    photo: str, live: str, points: int = 468, angle: float = 0.0, light: tuple[float, ...] = (1, 1, 1)
) -> Image:
    """One photo on one live face, after some frames, so that light and shape have settled."""
    swapper = MeshSwapper(source(photo, points), landmarks=points)
    swapper.open(lambda line: None)
    frame = np.rint(placed(live, SIZE, WIDTH, AT, angle) * np.float32(light)).astype(np.uint8)
    face = face_in(frame, landmarks(points))
    for _ in range(3):
        layer = swapper.swap(frame, face)
    swapper.blend(frame, layer)
    swapper.close()
    return frame


def texture(name: str) -> Image:
    """A photo as a texture over grey, as far as it is painted."""
    level = next(level for level in unwrap(source(name)).levels if level.shape[0] <= 192)
    opacity = level[:, :, 3:].astype(np.float32) / 255
    return np.rint(level[:, :, :3] * opacity + 128 * (1 - opacity)).astype(np.uint8)


CASES: dict[str, Callable[[], Image]] = {
    "hopper_on_astronaut": lambda: swap("hopper", "astronaut"),
    "astronaut_on_hopper": lambda: swap("astronaut", "hopper"),
    "hopper_on_astronaut_refined": lambda: swap("hopper", "astronaut", points=478),
    "astronaut_on_hopper_tilted_in_warm_light": lambda: swap(
        "astronaut", "hopper", angle=0.4, light=(0.5, 0.75, 0.9)
    ),
    "texture_of_hopper": lambda: texture("hopper"),
    "texture_of_astronaut": lambda: texture("astronaut"),
}


def main() -> None:
    """Paints every picture and says how large it is."""
    for name, paint in CASES.items():
        data = cv2.imencode(".png", paint(), [cv2.IMWRITE_PNG_COMPRESSION, 9])[1].tobytes()
        if len(data) > LARGEST_BYTES:
            raise SystemExit(f"{name}.png has {len(data)} bytes; {LARGEST_BYTES} are the most.")
        (FOLDER / f"{name}.png").write_bytes(data)
        print(f"{name}.png: {len(data)} bytes")


if __name__ == "__main__":
    main()
