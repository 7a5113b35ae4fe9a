"""NVIDIA's compiler on the kernels: for every generation of cards, without a warning and without a spill."""

from __future__ import annotations

import pytest

from engines.kernels.gpu import card as gpu
from tests.engines.kernels import nvrtc

pytestmark = pytest.mark.skipif(
    nvrtc.library() is None, reason="NVRTC is not installed here: pip install nvidia-cuda-nvrtc-cu12"
)


@pytest.mark.parametrize("generation", nvrtc.GENERATIONS)
def test_the_kernels_compile_without_a_word(generation):
    done = nvrtc.compiled(generation, gpu.source(), "--ptxas-options=-v")
    assert done.ok, done.log
    assert not done.complaints
    assert done.figures.keys() == set(gpu.KERNELS)
    spilled = {name: figures for name, figures in done.figures.items() if figures[1] or figures[2]}
    assert not spilled
    # Two blocks of 256 threads and more fit on a multiprocessor, which has 65,536 registers.
    assert max(figures[0] for figures in done.figures.values()) <= 128


def test_a_mistake_is_told_with_the_file_and_the_line():
    broken = gpu.source().replace("float area = (right - left)", "float area = (wrong - left)")
    done = nvrtc.compiled(80, broken)
    assert not done.ok
    assert "cells.cu(" in done.log


def test_a_warning_would_be_seen():
    done = nvrtc.compiled(80, gpu.source() + "\n__device__ int unused() { int nothing; return 0; }\n")
    assert done.complaints
