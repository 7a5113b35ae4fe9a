"""The doctor's look at TensorRT plans."""

from __future__ import annotations

from engines.runtime.driver import Driver, Gpu
from engines.runtime.trt.parity import Verdict
from engines.runtime.trt.plans import PlanStore
from realtime.doctor.engines import check_plans
from tests.engines.runtime.test_plans import HERE, PLAN, note

DRIVER = Driver((Gpu(0, HERE.gpu, 24564, (8, 9)),), (12, 8))
PACKAGES = {"tensorrt-cu12": HERE.version}


def checks(store, driver=DRIVER, found=PACKAGES, version=HERE.driver):
    return list(check_plans(store, lambda: driver, found, lambda: version))


def test_it_is_silent_where_there_are_none(tmp_path):
    assert checks(PlanStore(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


def test_it_tells_each_plan_and_why_one_is_not_used(tmp_path):
    store = PlanStore(tmp_path / "plans")
    store.put(note(), PLAN)
    [ready] = checks(store)
    assert (ready.state, ready.found) == ("ok", "swap_128, TensorRT 11.4 FP16 is ready")
    [stale] = checks(store, version="580.1")
    assert stale.state == "missing"
    assert "stale: it was built for another driver: 570.86.10, and here it is 580.1" in stale.found
    assert stale.fix == "Type: doppelcam engines build swap_128 --again"
    [lonely] = checks(store, found={})
    assert lonely.state == "ok" and "not installed" in lonely.found
    [bare] = checks(store, driver=Driver(why_not="there is no NVIDIA driver"))
    assert "no NVIDIA driver" in bare.found
    store.put(note(verdict=Verdict(False, "it is black")), PLAN)
    [refused] = checks(store)
    assert "refused: compared with the model, it is black" in refused.found
    next(store.folder.path.glob("*.json")).write_text("{}")
    [broken] = checks(store)
    assert "broken" in broken.found and broken.fix == "Type: doppelcam engines clean"
