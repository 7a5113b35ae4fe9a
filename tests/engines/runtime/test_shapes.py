"""Inputs and outputs are found by what they look like; what does not fit is listed."""

from __future__ import annotations

import pytest

from engines.errors import EngineError
from engines.runtime.base import TensorSpec
from engines.runtime.shapes import find_input, find_output

SPECS = [
    TensorSpec("source", (1, 512), "float32"),
    TensorSpec("target", (1, 3, 128, 128), "float32"),
    TensorSpec("weight", (), "float64"),
]


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        ({"rank": 4}, 1),
        ({"rank": 2}, 0),
        ({"shape": (None, 512)}, 0),
        ({"shape": (None, 3, None, None)}, 1),
        ({"dtype": "float64"}, 2),
        ({"rank": 0}, 2),
        ({"rank": 4, "dtype": "float32", "shape": (1, 3, 128, 128)}, 1),
    ],
)
def test_the_one_that_fits_is_found_in_any_order(wanted, number):
    assert find_input(SPECS, **wanted) == number
    assert find_output(SPECS[::-1], **wanted) == 2 - number


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"rank": 3}, "one input of rank 3 and has none"),
        ({"shape": (None, 256)}, r"one input \?×256 and has none"),
        ({"dtype": "float32"}, "one input float32 and has 2 such"),
        ({"dtype": "float16", "shape": (1, 512)}, "one input float16 1×512 and has none"),
        ({"rank": 2, "shape": (None, 3, None, None)}, "none"),
    ],
)
def test_what_is_not_there_or_not_alone_is_listed(wanted, said):
    with pytest.raises(EngineError, match=said) as caught:
        find_input(SPECS, network="inswapper_128", **wanted)
    assert "inswapper_128" in caught.value.what
    for one in ("source float32 1×512", "target float32 1×3×128×128", "weight float64 scalar"):
        assert one in caught.value.what
    assert caught.value.exit_code == 4
    with pytest.raises(EngineError, match="its outputs are none"):
        find_output([], rank=1)
