"""A GPU asked for is a GPU used, or an error that says why: on a machine that only plays one."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import onnxruntime as real
import pytest

from engines.errors import EngineError
from engines.runtime.device import Device
from engines.runtime.ort.network import OnnxNetwork
from tests.engines.runtime import cuda_runtime
from tests.engines.runtime.cuda_runtime import CPU, CUDA, TENSORRT, CudaRuntime
from tests.engines.runtime.graphs import double, flattened

GPU = Device("cuda:1")


@pytest.fixture
def runtime(monkeypatch):
    """Puts a runtime in the place of the real one."""

    def put(**how):
        made = CudaRuntime(**how)
        monkeypatch.setitem(sys.modules, "onnxruntime", made)
        return made

    return put


@pytest.fixture
def model(tmp_path):
    return double(tmp_path / "double.onnx")


def test_a_gpu_is_asked_for_with_no_cpu_behind_it(runtime, model):
    made = runtime()
    network = OnnxNetwork(model, device=GPU)
    assert [(names, strict) for names, _, strict in made.opened] == [([CUDA], True)]
    assert made.opened[0][1][CUDA]["device_id"] == "1"
    assert network.nodes == {CUDA: 1}
    network.close()


def test_every_run_takes_what_the_inputs_hold_then(runtime, model):
    made = runtime()
    network = OnnxNetwork(model, device=GPU)
    for value in (1, 2, 3):
        network.inputs[0][:] = value
        network.run()
        assert (network.outputs[0] == 2 * value).all()
    assert made.copies == [(1, 3, 4, 4)] * 3
    network.close()


def test_memory_of_the_gpu_is_copied_neither_way(runtime, model):
    made = runtime()
    network = OnnxNetwork(model, device=GPU)
    theirs, results = np.full((1, 3, 4, 4), 5, np.float32), np.zeros((1, 3, 4, 4), np.float32)
    network.bind({0: theirs.ctypes.data}, {0: results.ctypes.data})
    network.run()
    assert (results == 10).all()
    assert not network.outputs[0].any()
    assert made.copies == []
    assert network._binding.devices == {"x": ("cuda", 1), "y": ("cuda", 1)}
    network.close()


def test_buffers_are_pinned_where_the_runtime_can_do_that(runtime, model):
    made = runtime(pinned=True)
    network = OnnxNetwork(model, device=Device("cuda:0"))
    assert made.calls == ["pinned", "pinned"]
    network.inputs[0][:] = 4
    network.run()
    assert (network.outputs[0] == 8).all()
    network.close()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"providers": (CPU,)}, rf"no {CUDA}"),
        ({"loads": False}, rf"could not load its {CUDA}"),
        ({"silent": True}, "gave all of its 1 nodes to the CPU"),
        ({"on_cpu": ["Mul"]}, "gave all of its 1 nodes to the CPU"),
        ({"tells": False}, "does not tell where it runs"),
    ],
)
def test_a_provider_that_does_nothing_is_an_error(runtime, model, how, said):
    runtime(**how)
    with pytest.raises(EngineError, match=said) as caught:
        OnnxNetwork(model, device=GPU)
    assert "cuda:1" in caught.value.what
    assert caught.value.fix
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("kinds", [["Sin"], ["Neg"], ["Reshape"], ["Shape", "Gather", "Concat", "Sin"]])
def test_work_that_would_be_done_by_the_cpu_is_named(runtime, tmp_path, kinds):
    runtime(on_cpu=kinds)
    with pytest.raises(EngineError, match=r"of its \d+ nodes would run on the CPU") as caught:
        _flat(tmp_path)
    assert any(f"{kind} (" in caught.value.what for kind in kinds)
    assert "--device cpu" in caught.value.fix


def test_arithmetic_with_shapes_may_be_done_by_the_cpu_and_is_counted(runtime, tmp_path):
    made = runtime(on_cpu=["Shape", "Gather", "Concat"])
    network = _flat(tmp_path)
    assert [(names, strict) for names, _, strict in made.opened] == [([CUDA], True), ([CUDA, CPU], False)]
    assert network.nodes == {CUDA: 11, CPU: 3}
    network.close()


def _flat(folder):
    from engines.runtime.shapes import Sizes

    # Without names, the sizes cannot be fixed in the graph, so the arithmetic stays.
    return OnnxNetwork(
        flattened(folder / "flat.onnx", (None, 3, None, None)), device=GPU, sizes=Sizes(side=4)
    )


def test_tensorrt_has_cuda_behind_it_and_no_cpu(runtime, model):
    made = runtime()
    network = OnnxNetwork(model, device=GPU, tensorrt=True, stream=4096)
    [(names, options, strict)] = made.opened
    assert (names, strict) == ([TENSORRT, CUDA], True)
    assert all(one["device_id"] == "1" and one["user_compute_stream"] == "4096" for one in options.values())
    assert network.nodes == {TENSORRT: 1}
    network.close()
    runtime(providers=(CUDA, CPU))
    with pytest.raises(EngineError, match=rf"no {TENSORRT}"):
        OnnxNetwork(model, device=GPU, tensorrt=True)


def test_a_broken_file_is_not_the_gpus_fault(runtime, model):
    runtime()
    model.write_bytes(model.read_bytes().replace(b"Mul", b"Mvl"))
    with pytest.raises(EngineError, match=r"operator Mvl"):
        OnnxNetwork(model, device=GPU)


def test_a_gpu_that_refuses_a_good_file_is_named(runtime, model, monkeypatch):
    made = runtime()
    honest = made.InferenceSession

    def refuses(model, options, providers, enable_fallback):
        if CUDA in [one[0] for one in providers]:
            raise RuntimeError("CUDA failure 2: out of memory")
        return honest(model, options, providers, enable_fallback)

    monkeypatch.setattr(made, "InferenceSession", refuses)
    with pytest.raises(EngineError, match=r"does not open on cuda:1: CUDA failure 2"):
        OnnxNetwork(model, device=GPU)


def test_what_the_runtime_would_print_is_not_printed(runtime, model, capfd):
    made = runtime(missing=["libcublas.so.12"])
    OnnxNetwork(model, device=GPU).close()
    assert made.severity == 4
    assert capfd.readouterr() == ("", "")


def test_the_machine_that_is_played_has_the_real_ones_surface():
    """Every name and every argument that the fake takes, the installed package takes too."""
    pairs = (
        (
            CudaRuntime,
            real,
            ["get_available_providers", "set_default_logger_severity", "preload_dlls", "get_ep_devices"],
        ),
        (cuda_runtime.Session, real.InferenceSession, None),
        (cuda_runtime.Binding, real.IOBinding, None),
        (cuda_runtime.DeviceMemory, real.OrtValue, None),
        (cuda_runtime.SessionOptions, real.SessionOptions, None),
    )
    for fake, original, names in pairs:
        for name in names or [name for name in vars(fake) if not name.startswith("_")]:
            assert hasattr(original, name), name
            try:
                theirs = inspect.signature(getattr(original, name))
            except ValueError:
                continue
            ours = inspect.signature(getattr(fake, name))
            assert [p for p in ours.parameters if p != "self"] == [
                p for p in theirs.parameters if p != "self"
            ], name
    for name in ("intra_op_num_threads", "inter_op_num_threads", "log_severity_level"):
        assert hasattr(real.SessionOptions, name)
    assert {"package_name", "cuda_version", "__version__", "OrtDeviceMemoryType"} <= set(dir(real))
    assert {"ep_name", "memory_info"} <= set(dir(real.OrtEpDevice))
    assert "device_id" in dir(real.OrtMemoryInfo)
    allocate = list(inspect.signature(real.OrtValue.ortvalue_from_shape_and_type).parameters)
    assert allocate == list(inspect.signature(CudaRuntime._allocate).parameters)[1:]
    assert {CUDA, TENSORRT, CPU} <= set(real.get_all_providers())


def test_the_real_runtime_refuses_in_those_words(model):
    """What the whole rule rests on, asked of the installed package itself."""
    for providers, words in (([], cuda_runtime.REFUSED), ([CPU], cuda_runtime.CONFLICT)):
        options = real.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        with pytest.raises(Exception, match="CPU EP") as caught:
            real.InferenceSession(str(model), options, providers=providers or ["AzureExecutionProvider"],
                                  enable_fallback=0)  # fmt: skip
        assert str(caught.value) == words
