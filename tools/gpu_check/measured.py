"""The parts that time: what the card can do at most, each stage of a frame, and whole frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from engines.errors import EngineError
from engines.kernels.gpu.card import Card
from tools.gpu_check.bench import Bench
from tools.gpu_check.rows import Row
from tools.gpu_check.scene import SIZES, Scene

_MEGABYTES = 256


def rates(bench: Bench, megabytes: int = _MEGABYTES, torch: Any = None) -> Iterator[Row]:
    """Bandwidths and rates, of large pieces of work.

    Args:
        bench: On the card.
        megabytes: How much is copied.
        torch: PyTorch with a card, or None where it is not there.
    """
    card, size = bench.card, megabytes << 20
    one, other = card.empty((size,), np.uint8), card.empty((size,), np.uint8)
    pinned, pageable = card.pinned((size,), np.uint8), np.zeros(size, np.uint8)
    pinned[:] = 0
    jobs: dict[str, tuple[Callable[[], None], int]] = {
        "memory": (lambda: card.copy(one, other), 2 * size),
        "up": (lambda: card.upload(pinned, one), size),
        "down": (lambda: card.download(one, pinned), size),
        "up pageable": (lambda: card.upload(pageable, one), size),
        "down pageable": (lambda: card.download(one, pageable), size),
    }
    for name, (job, moved) in jobs.items():
        timing = bench.whole(job)
        note = f"{megabytes} MiB; read and written both count" if name == "memory" else f"{megabytes} MiB"
        yield Row("rates", name, value=moved / timing.ms / 1e6, unit="GB/s", note=note)
    yield from _arithmetic(torch)


def _arithmetic(torch: Any, side: int = 8192) -> Iterator[Row]:
    for name in ("fp16", "fp32"):
        if torch is None:
            yield Row("rates", name, note="no PyTorch with a card here", ran=False)
            continue
        kind = torch.float16 if name == "fp16" else torch.float32
        a, b = (torch.randn((side, side), dtype=kind, device="cuda") for _ in range(2))
        for _ in range(3):
            a @ b
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            a @ b
        end.record()
        torch.cuda.synchronize()
        speed = 10 * 2 * side**3 / start.elapsed_time(end) / 1e9
        yield Row("rates", name, value=speed, unit="TFLOP/s", note=f"matrix product of {side}, PyTorch")


def stages(bench: Bench, sizes: dict[str, tuple[int, int]] | None = None) -> Iterator[Row]:
    """Each stage of a frame alone, for 1080p and 4K, one face and four."""
    for label, size in (sizes or SIZES).items():
        for faces in (1, 4):
            for stage in Scene(bench.card, size, faces).stages():
                if faces == 1 or stage.name not in ("upload", "I420", "download"):
                    timing = bench.short(stage.job)
                    name = f"{label}, {_people(faces)}: {stage.name}"
                    yield Row("stages", name, timing.ms, timing.spread, stage.work, note=timing.note)


def frames(bench: Bench, sizes: dict[str, tuple[int, int]] | None = None) -> Iterator[Row]:
    """Whole frames, with and without a CUDA graph; both must give the same bytes."""
    for label, size in (sizes or SIZES).items():
        for faces in (1, 4):
            yield from whole_frame(
                bench, Scene(bench.card, size, faces), f"{label}, {_people(faces)}", "frames"
            )


def whole_frame(bench: Bench, scene: Scene, label: str, part: str) -> Iterator[Row]:
    """One scene from upload to download.

    Args:
        bench: On the card.
        scene: With its network.
        label: Beginning of the names.
        part: Of the rows.
    """
    steps = scene.stages()
    work: dict[str, float] = {}
    for stage in steps:
        for kind, amount in stage.work.items():
            work[kind] = work.get(kind, 0) + amount
    recipe = bench.card.record(lambda: [stage.job() for stage in steps])
    timing = bench.recipe(recipe)
    plain = scene.sink.copy()
    used = bench.card.used_bytes()
    yield Row(part, f"{label}, no graph", timing.ms, timing.spread, work)
    scene.sink[:] = 0
    reason = recipe.capture()
    if reason:
        yield Row(part, f"{label}, graph", note=f"not captured: {reason}", ran=False)
        return
    timing = bench.recipe(recipe)
    same = bool((scene.sink == plain).all()) and bool(plain.any())
    grown = max(0, bench.card.used_bytes() - used)
    note = "" if same else "other bytes than without the graph"
    if grown:
        note = f"{note}; {grown} bytes were taken".strip("; ")
    yield Row(part, f"{label}, graph", timing.ms, timing.spread, work, good=same and not grown, note=note)


def _people(faces: int) -> str:
    return "1 face" if faces == 1 else f"{faces} faces"


def torch_on(card: Card) -> Any:
    """PyTorch, if it is there and sees the card; else None."""
    try:
        import torch

        return torch if card and torch.cuda.is_available() else None
    except (ImportError, OSError, RuntimeError, EngineError):
        return None
