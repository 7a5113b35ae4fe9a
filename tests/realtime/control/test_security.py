"""Who is let in, and who may change anything."""

import subprocess
import sys
from email.message import Message

import pytest

from engines.errors import UsageError
from realtime.control.control import Control
from realtime.control.security import Access, TooMany, host_allowed, password_from
from realtime.control.wanted import wants_control
from tests.realtime.control.rig import PASSWORD, Rig


class Hand:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def headers(**values):
    made = Message()
    for name, value in values.items():
        made[name.replace("_", "-")] = value
    return made


def test_a_guest_is_known_by_the_cookie_or_by_the_token_and_by_nothing_else():
    access = Access(None, Hand())
    session = access.begin()
    assert access.guest(headers(Cookie=f"other=1; doppelcam={session}")).csrf
    assert access.guest(headers(Authorization=f"Bearer {access.token}")).csrf == ""
    for stranger in (
        headers(), headers(Cookie="doppelcam="), headers(Cookie=f"doppelcam={session}x"), headers(Cookie="doppelcam=é"),
        headers(Cookie="\x00=;;;"), headers(Authorization="Bearer "), headers(Authorization=f"Basic {access.token}"),
        headers(Authorization=f"Bearer {access.token}x"), headers(Cookie=f"doppelcam={access.token}"),
    ):  # fmt: skip
        assert access.guest(stranger) is None


def test_a_wrong_token_is_not_made_good_by_a_cookie():
    access = Access(None, Hand())
    both = headers(Cookie=f"doppelcam={access.begin()}", Authorization="Bearer wrong")
    assert access.guest(both) is None


def test_tokens_and_sessions_differ_every_time():
    made = {Access(None, Hand()).token for _ in range(20)}
    access = Access(None, Hand())
    made |= {access.begin() for _ in range(20)}
    assert len(made) == 40
    assert all(len(one) >= 40 for one in made)


def test_the_oldest_session_ends_when_there_are_too_many():
    access = Access(None, Hand())
    sessions = [access.begin() for _ in range(40)]
    known = [access.guest(headers(Cookie=f"doppelcam={one}")) is not None for one in sessions]
    assert known == [False] * 8 + [True] * 32


def test_what_csrf_says_belongs_to_one_session():
    access = Access(None, Hand())
    one, two = (access.guest(headers(Cookie=f"doppelcam={access.begin()}")) for _ in range(2))
    own = "http://127.0.0.1:1".__eq__
    said = headers(Origin="http://127.0.0.1:1", X_CSRF_Token=one.csrf)
    assert access.may_change(one, said, own)
    assert not access.may_change(two, said, own)


def test_guessing_the_password_gets_slow_and_the_right_one_is_not_compared_meanwhile():
    hand = Hand()
    access = Access(PASSWORD, hand)
    waits = []
    for _ in range(12):
        try:
            assert not access.try_password("guess")
        except TooMany as error:
            waits.append(error.wait_s)
            with pytest.raises(TooMany):
                access.try_password(PASSWORD)
            hand.now += error.wait_s
    assert waits[:4] == [2, 4, 8, 16]
    hand.now += 10_000
    assert access.try_password(PASSWORD)
    assert not access.try_password("guess")  # And the patience is as long as at first.
    assert access.try_password(PASSWORD)


def test_without_a_password_none_is_right():
    access = Access(None, Hand())
    assert not access.try_password("")
    assert not access.try_password("None")


HERE = [("127.0.0.1:80", 80), ("localhost:9", 9), ("LOCALHOST:9", 9), ("127.0.0.1", 80), ("[::1]:9", 9)]
ELSEWHERE = [
    ("evil.example:9", 9), ("127.0.0.1:10", 9), ("127.0.0.1", 9), ("127.0.0.1.evil.example:9", 9), ("", 9), (":9", 9),
    ("192.168.1.2:9", 9), ("localhost:9@evil.example", 9), ("[::1", 9), ("127.1:9", 9), ("0x7f000001:9", 9),
    ("localhost.:9", 9), ("127.0.0.1:9:9", 9),
]  # fmt: skip


@pytest.mark.parametrize(("header", "port"), HERE)
def test_this_machine_has_these_names(header, port):
    assert host_allowed(header, port, "127.0.0.1", frozenset({"localhost"}))


@pytest.mark.parametrize(("header", "port"), ELSEWHERE)
def test_a_site_whose_name_points_here_is_told_apart(header, port):
    assert not host_allowed(header, port, "127.0.0.1", frozenset({"localhost"}))


def test_on_a_network_addresses_are_right_and_names_are_this_machine_s():
    names = frozenset({"localhost", "studio", "studio.local"})
    for right in ("192.168.1.2:9", "[fe80::1]:9", "studio:9", "studio.local:9", "127.0.0.1:9"):
        assert host_allowed(right, 9, "0.0.0.0", names)
    for wrong in ("evil.example:9", "studio.evil.example:9", "192.168.1.2:10"):
        assert not host_allowed(wrong, 9, "0.0.0.0", names)


def test_a_password_comes_from_a_file_or_the_environment_and_is_long_enough(tmp_path):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD} with spaces \r\nsecond line\n")
    assert password_from({"DOPPELCAM_CONTROL_PASSWORD": "another one"}, file) == f"{PASSWORD} with spaces "
    assert password_from({"DOPPELCAM_CONTROL_PASSWORD": "another one"}, None) == "another one"
    assert password_from({}, None) is None
    for short in ("", "1234567"):
        with pytest.raises(UsageError, match="fewer than 8"):
            password_from({"DOPPELCAM_CONTROL_PASSWORD": short}, None)
    file.write_bytes(b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        password_from({}, file)
    with pytest.raises(UsageError, match="no file"):
        password_from({}, tmp_path / "none")


def test_other_machines_are_let_in_with_a_password_only():
    with pytest.raises(UsageError, match="needs a password"):
        Rig(control_host="0.0.0.0")
    rig = Rig({"DOPPELCAM_CONTROL_PASSWORD": PASSWORD}, control_host="0.0.0.0")
    assert isinstance(rig.control, Control)


DESKTOP = {"DISPLAY": ":0"}


@pytest.mark.parametrize(
    ("config", "reads", "environ", "platform", "wanted"),
    [
        ({}, True, DESKTOP, "linux", True),
        ({}, True, {"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, True, {}, "darwin", True),
        ({}, True, {}, "win32", True),
        ({}, True, {}, "linux", False),
        ({}, False, DESKTOP, "linux", False),
        ({"control": "off"}, True, DESKTOP, "linux", False),
        ({"control": "0"}, False, {}, "linux", True),
        ({"control": "off", "control_osc": 0}, False, {}, "linux", True),
        ({"control_host": "0.0.0.0"}, False, {}, "linux", True),
        ({"offline": True}, True, DESKTOP, "linux", False),
    ],
)
def test_who_sits_at_a_desktop_and_reads_the_link_gets_a_page(config, reads, environ, platform, wanted):
    from dataclasses import replace

    from realtime.settings.config import Config

    assert wants_control(replace(Config(), **config), reads, environ, platform) is wanted


def test_a_run_without_a_page_imports_nothing_of_it():
    code = (
        "import sys, realtime.cli.run; print(*(name for name in sys.modules if 'realtime.control.' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["realtime.control.wanted"]
