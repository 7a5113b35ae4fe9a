"""Which hard heads are found, in which frame, and how long a newcomer is bare: ``python -m tools.hard_heads``.

Prints Markdown. It needs nothing but the checkout; the pictures are made of the packaged portraits.
"""

from __future__ import annotations

import argparse

import numpy as np

from tests.realtime.heads import FRAME, SIZES, Head, everything, frames_until_found, tracker

MOST = 60


def table() -> str:
    """Every row: frames until found, 1 for at once, – for not within two seconds, ✗ for somewhere else."""
    lines, found, wrong, count = [], 0, 0, 0
    for name, heads in everything():
        cells = []
        for which, head in heads.items():
            frame = frames_until_found(head, MOST)
            count, found, wrong = count + 1, found + (frame > 0), wrong + (frame < 0)
            cells.append(f"{which}: {frame if frame > 0 else '–' if not frame else f'✗ {-frame}'}")
        lines.append(f"| {name} | {', '.join(cells)} |")
    return "\n".join(
        ["| heads | frame in which they are found |", "|---|---|", *lines, "",
         f"{found} of {count} found, {wrong} taken to be somewhere else."]
    )  # fmt: skip


def bare(kind: str, size: str, longest: int) -> list[float]:
    """Milliseconds from a whole face in the picture until it is followed, for newcomers beside one who is.

    Args:
        kind: ``walks in``, from the side; ``appears``, from one frame to the next; ``comes slowly``, out of the
            background within two seconds, where no motion is seen.
        size: Of the frame.
        longest: The most frames from one look to the next.
    """
    w, h = SIZES[size]
    first = Head(size, "astronaut", 0.3 * h, (0.25 * w, 0.5 * h))
    ground, took = first.picture(), []
    for seed in range(8):
        rng, looking = np.random.default_rng(seed), tracker(2, longest=longest)
        for i in range(70 + seed):
            looking.track(ground, i * FRAME)
        width, y = float(rng.uniform(0.14, 0.3)) * h, float(rng.uniform(0.4, 0.6)) * h
        whole, start = None, 70 + seed
        for i in range(start, start + 90):
            part, x = 1.0, 0.75 * w
            if kind == "walks in":
                x = max(0.75 * w, 1.2 * w - (i - start) * w / 45)
            elif kind == "comes slowly":
                part = min(1.0, (i - start + 1) / 60)
            there = Head(size, "hopper", width, (x, y))
            # The portrait has its own background, so only its right half of the frame is laid in.
            image = there.picture(onto=ground)
            if part < 1:
                image = np.rint(image * part + ground * (1.0 - part)).astype(np.uint8)
            faces = looking.track(image, i * FRAME)
            if whole is None and part >= 0.5 and x + 0.6 * width < w:
                whole = i
            if any(there.off(face) < 0.2 for face in (*faces, *looking.others)):
                took.append(max(0, i - (whole if whole is not None else i)) * FRAME / 1e6)
                break
        else:
            took.append(float("inf"))
    return took


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("heads", "newcomers"))
    asked = parser.parse_args()
    if asked.only != "newcomers":
        print(table())
    if asked.only != "heads":
        print("\n| newcomer | size | median, ms | worst, ms |\n|---|---|---|---|")
        for kind in ("walks in", "appears", "comes slowly"):
            for size in SIZES:
                took = bare(kind, size, 15)
                print(f"| {kind} | {size} | {np.median(took):.0f} | {max(took):.0f} |")


if __name__ == "__main__":
    main()
