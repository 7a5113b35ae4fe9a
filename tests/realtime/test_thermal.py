"""Temperatures, from a folder such as Linux has."""

from __future__ import annotations

import pytest

from realtime.thermal import Thermometer


def sensor(root, chip, name, *values):
    folder = root / "hwmon" / chip
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    for number, value in enumerate(values, 1):
        (folder / f"temp{number}_input").write_text(value)


def zone(root, number, kind, value):
    folder = root / "thermal" / f"thermal_zone{number}"
    folder.mkdir(parents=True)
    (folder / "type").write_text(f"{kind}\n")
    (folder / "temp").write_text(value)


def test_the_warmest_of_each_is_told(tmp_path):
    zone(tmp_path, 0, "acpitz", "90000\n")
    zone(tmp_path, 1, "x86_pkg_temp", "61400\n")
    sensor(tmp_path, "hwmon0", "coretemp", "60000\n", "63600\n")
    sensor(tmp_path, "hwmon1", "nvme", "99000\n")
    sensor(tmp_path, "hwmon2", "amdgpu", "71000\n")
    assert Thermometer(tmp_path).read() == {"CPU": 64, "GPU": 71}


@pytest.mark.parametrize("value", ["", "hot", "-274000", "0", "999999999999999", "\x00\xff", "1e5"])
def test_a_sensor_that_is_asleep_or_broken_is_left_out(tmp_path, value):
    sensor(tmp_path, "hwmon0", "k10temp", value, "55000")
    assert Thermometer(tmp_path).read() == {"CPU": 55}
    (tmp_path / "hwmon" / "hwmon0" / "temp2_input").write_text(value)
    assert Thermometer(tmp_path).read() == {}


def test_a_machine_without_sensors_and_one_that_is_unplugged(tmp_path):
    assert Thermometer(tmp_path / "nothing").read() == {}
    sensor(tmp_path, "hwmon0", "xe", "50000")
    thermometer = Thermometer(tmp_path)
    (tmp_path / "hwmon" / "hwmon0" / "temp1_input").unlink()
    assert thermometer.read() == {}
