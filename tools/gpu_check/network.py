"""A network of inswapper's shape in half precision, through the program's own runtime and through PyTorch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engines.errors import DoppelcamError
from engines.runtime.device import choose_device
from engines.runtime.open import open_network
from tools.gpu_check import onnx_net, torch_net
from tools.gpu_check.bench import Bench
from tools.gpu_check.measured import whole_frame
from tools.gpu_check.rows import Row
from tools.gpu_check.scene import SIZES, Scene
from tools.gpu_check.shape import LATENT, SIDE, Shape, inswapper

BATCHES = (1, 4)


def work_of(shape: Shape, batch: int) -> dict[str, float]:
    """What it has to compute, and the weights that it has to read once."""
    return {"fp16": shape.operations * batch, "memory": 2.0 * shape.parameters}


def through_the_program(bench: Bench, shape: Shape | None = None, asked: str = "cuda:0") -> Iterator[Row]:
    """Through whatever :func:`engines.runtime.open.open_network` takes here: what a user of the program gets.

    Args:
        bench: On the card.
        shape: Which layers; inswapper's.
        asked: The device, as on the command line.
    """
    shape = shape or inswapper()
    try:
        import onnx

        device = choose_device(asked)
    except (ImportError, DoppelcamError) as error:
        yield Row("network", "the program's own runtime", note=str(error), ran=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        for batch in BATCHES:
            name = f"the program's own runtime, batch {batch}"
            path = Path(folder) / f"shaped-{batch}.onnx"
            onnx_net.write(onnx, path, shape, batch)
            try:
                network = open_network(path, device, batch=batch)
            except DoppelcamError as error:
                yield Row("network", name, note=str(error), ran=False)
                return
            try:
                pictures, made = (bench.card.empty((batch, 3, SIDE, SIDE), np.float16) for _ in range(2))
                bench.card.clear(pictures)
                bench.card.synchronize()
                network.inputs[1][...] = LATENT**-0.5
                if device.kind == "cuda":
                    network.bind({0: pictures.data.ptr}, {0: made.data.ptr})
                timing = bench.whole(network.run)
                where = ", ".join(f"{count} nodes on {place}" for place, count in network.nodes.items())
                yield Row("network", name, timing.ms, timing.spread, work_of(shape, batch), note=where)
            finally:
                network.close()


def through_torch(bench: Bench, torch: Any, shape: Shape | None = None) -> Iterator[Row]:
    """The same layers in PyTorch, alone and within whole frames.

    Args:
        bench: On the card.
        torch: PyTorch with a card, or None where it is not there.
        shape: Which layers; inswapper's.
    """
    if torch is None:
        yield Row("network", "PyTorch", note="no PyTorch with a card here", ran=False)
        return
    shape = shape or inswapper()
    card = bench.card
    stream = torch.cuda.ExternalStream(card.stream.ptr)
    for batch in BATCHES:
        with torch.cuda.stream(stream):
            run = torch_net.build(torch, shape, batch, "cuda")
        for label, size in SIZES.items():
            scene = Scene(card, size, batch, SIDE)
            read, write = torch.from_dlpack(scene.net_in), torch.from_dlpack(scene.net_out)

            def network(run=run, read=read, write=write) -> None:  # type: ignore[no-untyped-def]
                with torch.cuda.stream(stream):
                    write.copy_(run(read))

            scene.network = lambda step=network: card.do(step)  # type: ignore[misc]
            if label == next(iter(SIZES)):
                card.clear(scene.net_in)
                alone = card.record(scene.network)
                timing = bench.recipe(alone)
                finite = bool(torch.isfinite(write).all())
                work = work_of(shape, batch)
                yield Row(
                    "network", f"PyTorch, batch {batch}, no graph", timing.ms, timing.spread, work, finite
                )
                reason = alone.capture()
                if reason:
                    yield Row(
                        "network", f"PyTorch, batch {batch}, graph", note=f"not captured: {reason}", ran=False
                    )
                else:
                    timing = bench.recipe(alone)
                    yield Row("network", f"PyTorch, batch {batch}, graph", timing.ms, timing.spread, work)
            people = "1 face" if batch == 1 else f"{batch} faces"
            for row in whole_frame(bench, scene, f"whole frame, {label}, {people}, PyTorch", "network"):
                # The copy that stood in for the network is none of the work now.
                yield Row(**{**_fields(row), "work": {**row.work, "fp16": work_of(shape, batch)["fp16"]}})


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
