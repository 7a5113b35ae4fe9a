"""A model and a GPU in, a network that runs the model's plan out, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.errors import EngineError
from engines.files import quoted
from engines.kernels.gpu.card import load_cupy
from engines.runtime import wheels
from engines.runtime.driver import Driver, find_driver
from engines.runtime.model.file import Hint, read_model_file
from engines.runtime.shapes import Sizes, fixed_shapes
from engines.runtime.trt.bindings import Package, TensorRt, find_package, load
from engines.runtime.trt.key import driver_version, target_of
from engines.runtime.trt.network import TensorRtNetwork
from engines.runtime.trt.plans import PlanStore, Unplanned


@dataclass(frozen=True, slots=True)
class Plans:
    """Where plans are and what runs them; tests put in their own.

    Attributes:
        store: The plans.
        driver: The NVIDIA driver.
        version: Its version.
        installed: Versions of the packages that matter.
        cupy: Gives CuPy, once it has seen a GPU.
        tensorrt: Imports TensorRT.
    """

    store: PlanStore = field(default_factory=PlanStore)
    driver: Callable[[], Driver] = find_driver
    version: Callable[[], str] = driver_version
    installed: Callable[[], Mapping[str, str]] = wheels.installed
    cupy: Callable[[], Any] = load_cupy
    tensorrt: Callable[[Package], TensorRt] = load

    def open(
        self, path: Path, gpu: int, sizes: Sizes, hint: Hint | None = None, stream: int = 0
    ) -> TensorRtNetwork:
        """Opens the plan of a model.

        Nothing of TensorRT is touched before there is a plan that fits, and CuPy has seen the GPU.

        Args:
            path: The model's file.
            gpu: Number of the GPU.
            sizes: What to put for dimensions that the model leaves free.
            hint: What is known of the file, for the message when it is broken.
            stream: Address of the CUDA stream to run on; 0 for one of its own.

        Raises:
            Unplanned: There is no plan that may be used; the sentence says why.
            EngineError: The model is broken, or the plan does not run.
        """
        package = find_package(self.installed())
        if package is None:
            raise Unplanned("TensorRT is not installed.", "Type: pip install 'doppelcam[gpu]'")
        file = read_model_file(path, hint)
        shapes = fixed_shapes(file.outline.inputs, sizes, path.stem)
        if not self.store.any():  # without a look at all of the model, which may be large
            raise Unplanned(
                f"There is no TensorRT plan of {path.stem}.", f"Type: doppelcam engines build {quoted(path)}"
            )
        target = target_of(self.driver(), gpu, package, self.version)
        model = self.store.sum_of(path)
        loaded = self.store.load(path.stem, model, list(shapes.values()), target, quoted(path))
        try:
            cupy = self.cupy()
            trt = self.tensorrt(package)
        except EngineError as error:
            raise Unplanned(error.what, error.fix) from error
        network = TensorRtNetwork(path.stem, loaded, trt, cupy, gpu, stream)
        found = [spec.shape for spec in network.input_specs]
        if found != list(shapes.values()):
            network.close()
            raise Unplanned(
                f"The plan of {path.stem} has other shapes than the model.",
                f"Type: doppelcam engines build {quoted(path)} --again",
            )
        return network
