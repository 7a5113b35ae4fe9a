"""Every door to the configuration: which one wins, and what each says about a mistake."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engines.errors import UsageError
from realtime.settings.config import BENCH, DEMO, Config
from realtime.settings.load import Origin, default_file, from_flags, key_lines, load
from realtime.settings.options import OPTIONS, typed


@pytest.fixture
def write(tmp_path):
    def _write(text: str, name: str = "config.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return _write


@pytest.fixture
def home(tmp_path):
    """An environment whose user has no configuration."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "home"), "APPDATA": str(tmp_path / "home")}


def test_every_attribute_has_its_option_and_a_default_that_passes():
    assert {option.field for option in OPTIONS} == set(Config.__slots__)
    for option in OPTIONS:
        value = getattr(Config(), option.field)
        if value not in (None, ()) and value != {}:
            assert option.read(typed(value) if option.kind == "one" else value) == value


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_comes_in_by_every_door_and_the_nearer_one_wins(option, write, home):
    texts = {
        "source": ("pattern", "portrait", "camera:0"), "face": ("a.jpg", "b.jpg", "c.jpg"),
        "sink": ("null", "preview", "virtualcam:1"), "size": ("320x240", "640x480", "1920x1080"),
        "engine": ("one", "two", "mesh"), "device": ("cpu", "cuda:1", "auto"),
        "select": ("largest", "center", "owner"), "on-lost": ("veil", "slate", "passthrough"),
        "label": ("false", "true", "false"), "offline": ("false", "false", "false"),
        "governor": ("false", "true", "false"),
        "others": ("bare", "veil", "bare"),
        "shape": ("0.25", "0.5", "1"), "eyes": ("live", "photo", "mixed"), "mouth": ("photo", "live", "photo"),
        "boost": ("2", "4", "1"), "morph": ("0.25", "0.5", "1"), "mask": ("box", "oval", "ellipse"),
        "colour": ("none", "match", "poisson"),
        "occluders": ("cover", "live", "cover"),
        "reference-distance": ("0.3", "0.4", "0.5"), "person": ("a.jpg=b.jpg", "b.jpg=c.jpg", "a.jpg=c.jpg"),
        "mirror": ("https://a.example/", "https://b.example/m/", "http://localhost:8/"),
        "audio": ("mic", "mic:USB", "none"), "stream-bitrate": ("300", "400", "500"),
        "smoothing": ("0.25", "0.5", "1"), "control": ("off", "0", "8800"),
        "control-host": ("127.0.0.2", "0.0.0.0", "::1"),
        "landmarks": ("468", "478", "468"), "budget": ("swap=1", "swap=2", "swap=3"),
    }.get(option.name, ("3", "4", "5"))  # fmt: skip
    file = write(f'{option.name} = "{texts[0]}"\n')
    quoted = option.read(texts[0])
    settings = load({}, home, file)
    if option.paths not in ("plain", "pair"):
        assert getattr(settings.config, option.field) == quoted
    assert settings.origins[option.field] == Origin("file", f"{file}:1")
    env = home | {option.variable: texts[1]}
    settings = load({}, env, file)
    assert getattr(settings.config, option.field) == option.read(texts[1])
    assert settings.origins[option.field] == Origin("environment", option.variable)
    settings = load({option.name: texts[2]}, env, file)
    assert getattr(settings.config, option.field) == option.read(texts[2])
    assert settings.origins[option.field].kind == "flag"
    others = [origin for name, origin in settings.origins.items() if name != option.field]
    assert all(origin.kind == "default" for origin in others)


def test_toml_types_mean_the_same_as_text(write, home):
    file = write(
        'size = [640, 480]\nfps = 25\nlandmarks = 478\non-lost = ["hold", "slate"]\n[budget]\nswap = 9\n'
    )
    config = load({}, home, file).config
    assert (config.size, config.fps, config.landmarks) == ((640, 480), 25.0, 478)
    assert config.on_lost == ("hold", "slate")
    assert config.budget == {"swap": 9.0}


def test_the_users_own_file_is_read_and_a_named_one_takes_its_place(write, home):
    own = default_file(home)
    own.parent.mkdir(parents=True)
    own.write_text("fps = 24\n")
    assert load({}, home).config.fps == 24
    other = write("fps = 48\n")
    assert load({}, home, other).config.fps == 48
    assert load({}, home | {"DOPPELCAM_CONFIG": str(other)}).config.fps == 48


def test_paths_in_a_file_are_relative_to_the_file(write, home, tmp_path):
    file = write('face = ["a.jpg", "/b.jpg"]\nsource = "file:in put.mp4"\nsink = ["file:out.mp4", "null"]\n')
    config = load({}, home, file).config
    assert config.face == (tmp_path / "a.jpg", Path("/b.jpg"))
    assert config.source == f"file:{tmp_path / 'in put.mp4'}"
    assert config.sink == (f"file:{tmp_path / 'out.mp4'}", "null")


@pytest.mark.parametrize(
    ("option", "text", "meant"),
    [
        ("engine", "mine.onnx", "{0}/mine.onnx"),
        ("engine", "mesh", "mesh"),
        ("engine", "ghost_1_256", "ghost_1_256"),
        ("engine", "ghost_1_256=sub/m.ONNX", "ghost_1_256={0}/sub/m.ONNX"),
        ("engine", "/abs/Some body.dfm", "/abs/Some body.dfm"),
        ("engine", "ghost_1_256=~/m.onnx", "ghost_1_256=~/m.onnx"),
        ("engine", "a,b.onnx", "{0}/a,b.onnx"),
        ("embedder", "w600k.onnx", "{0}/w600k.onnx"),
        ("detector", "scrfd_10g", "scrfd_10g"),
        ("detector", "x/scrfd.onnx", "{0}/x/scrfd.onnx"),
        ("landmarker", "mediapipe:f.task", "mediapipe:{0}/f.task"),
        ("landmarker", "2dfan4.onnx", "{0}/2dfan4.onnx"),
        ("restore", "gfpgan_1.4:0.8:2", "gfpgan_1.4:0.8:2"),
        ("restore", "g.onnx:0.8:2", "{0}/g.onnx:0.8:2"),
        (
            "mask",
            "oval,occlusion=x.onnx,regions:skin=b.onnx",
            "oval,occlusion={0}/x.onnx,regions:skin={0}/b.onnx",
        ),
        ("mask", "occlusion=xseg_1", "occlusion=xseg_1"),
    ],
)
def test_networks_in_a_file_are_relative_to_it_where_they_are_files(
    write, home, tmp_path, option, text, meant
):
    config = load({}, home, write(f'{option} = "{text}"\n')).config
    assert getattr(config, option) == meant.format(tmp_path)
    assert getattr(load({option: text}, home).config, option) == text


def test_masks_may_be_a_list_in_a_file(write, home, tmp_path):
    config = load({}, home, write('mask = ["oval", "occlusion=x.onnx", "live-mouth"]\n')).config
    assert config.mask == f"oval,occlusion={tmp_path / 'x.onnx'},live-mouth"


def test_names_of_cameras_in_a_file_are_left_alone(write, home):
    config = load({}, home, write('source = "camera:My Cam"\nsink = "virtualcam:/dev/video9"\n')).config
    assert (config.source, config.sink) == ("camera:My Cam", ("virtualcam:/dev/video9",))


def test_many_values_in_a_variable_are_separated_by_semicolons(home):
    config = load(
        {}, home | {"DOPPELCAM_SINK": "null; preview:8080", "DOPPELCAM_FACE": "Ä b.jpg;c,d.jpg"}
    ).config
    assert config.sink == ("null", "preview:8080")
    assert config.face == (Path("Ä b.jpg"), Path("c,d.jpg"))


BAD = [
    ("fps", "0"), ("fps", "241"), ("fps", "nan"), ("fps", "inf"), ("fps", "fast"), ("fps", ""),
    ("size", "1280"), ("size", "1281x720"), ("size", "1280x721"), ("size", "0x0"), ("size", "-2x4"),
    ("size", "99999x2"), ("size", "axb"), ("source", "webcam"), ("source", "file"), ("source", "file:"),
    ("source", "pattern:1"), ("source", ""), ("sink", "file:"), ("sink", "null:1"), ("sink", "stream:"),
    ("device", "gpu"), ("device", "cuda:x"), ("device", "cpu:0"), ("max-faces", "0"), ("max-faces", "1.5"),
    ("select", "nearest"), ("on-lost", "hold"), ("on-lost", "veil,hold"), ("on-lost", "nothing"),
    ("duration", "0"), ("duration", "-1"), ("detect-every", "0"), ("landmarks", "470"), ("seed", "-1"),
    ("mirror", "http://a.example/"), ("mirror", "ftp://a.example/"), ("mirror", "a.example"), ("mirror", "https://"),
    ("mirror", "https://me:pass@a.example/"), ("mirror", "https://a.example/../x/"), ("models", ""),
    ("mirror", "https://a.example/?x=1"),
    ("boost", "3"), ("boost", "0"), ("morph", "1.1"), ("morph", "nan"), ("mask", "star"), ("colour", "blue"),
    ("mask", "oval,oval"), ("mask", "occlusion="), ("mask", "regions:tail"), ("mask", ""), ("restore", ""),
    ("restore", "g:2"), ("restore", ":0.5"), ("restore", "g:1:0"), ("restore", "g:1:31"),
    ("control", "on"), ("control", "70000"), ("control", "-1"), ("control", ""), ("smoothing", "1.5"),
    ("control-host", "localhost"), ("control-host", "1.2.3"), ("control-host", "evil.example"), ("control-osc", "-1"),
    ("budget", "swap"), ("budget", "swim=3"), ("budget", "swap=-1"), ("face", ""), ("engine", " "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_wrong_value_is_named_with_where_it_stands(name, value, write, home):
    with pytest.raises(UsageError, match=f"^--{name} must be ") as flag:
        load({name: value}, home)
    assert flag.value.exit_code == 2
    assert f"'{value}'" in flag.value.what
    file = write(f'\n# a comment\n\n{name} = "{value}"\n')
    with pytest.raises(UsageError, match="line 4") as found:
        load({}, home, file)
    assert name in found.value.what
    assert str(file) in found.value.what


@pytest.mark.parametrize(("name", "value"), [pair for pair in BAD if pair[1].strip()])
def test_a_wrong_variable_is_named(name, value, home):
    variable = "DOPPELCAM_" + name.upper().replace("-", "_")
    with pytest.raises(UsageError, match=variable):
        load({}, home | {variable: value})


@pytest.mark.parametrize("toml", [
    "fps = true", "fps = [30]", "fps = {a = 1}", "size = [1, 2, 3]", "size = 5", "size = [640.5, 480]",
    "face = []", "face = [1]", "face = ['a', 'a']", "label = 'perhaps'", "label = 1", "max-faces = 1.0",
    "on-lost = 1", "budget = 3", "budget = {swap = 'x'}", "source = 1", "sink = [['null']]",
    "seed = 1979-05-27",
    f"fps = {'9' * 400}", 'face = "a\\u0000b"', "sink = ['null', 'null']",
])  # fmt: skip
def test_a_wrong_type_is_named_with_its_line(toml, write, home):
    with pytest.raises(UsageError, match=r"config\.toml, line 2: "):
        load({}, home, write(f"\n{toml}\n"))


def test_an_unknown_key_is_named_with_its_line_and_its_neighbour(write, home):
    file = write('# mine\nface = [\n  "a.jpg",\n]\n\nmax_faces = 2\n')
    with pytest.raises(UsageError, match="line 6: the key 'max_faces' is not known") as found:
        load({}, home, file)
    assert "max-faces" in found.value.fix


def test_an_unknown_stage_is_named_with_its_own_line(write, home):
    with pytest.raises(UsageError, match=r"line 4: .*no stage 'trak'"):
        load({}, home, write("fps = 30\n[budget]\nswap = 3\ntrak = 3\n"))


def test_an_unknown_table_is_named_with_its_line(write, home):
    with pytest.raises(UsageError, match="line 3: the key 'camera' is not known"):
        load({}, home, write("fps = 30\n\n[camera]\nname = 'x'\n"))


def test_an_unknown_variable_is_named_and_others_are_none_of_our_business(home):
    with pytest.raises(UsageError, match="DOPPELCAM_FPSS") as found:
        load({}, home | {"DOPPELCAM_FPSS": "3"})
    assert "DOPPELCAM_FPS?" in found.value.fix
    assert load({}, home | {"FPS": "junk"}).config.fps is None


@pytest.mark.parametrize("data", [b"fps = ", b"fps = 3\nfps = 4\n", b"\xff\xfe", b"\x00", b"x" * 300_000])
def test_a_file_that_is_no_toml_is_refused_by_name(data, tmp_path, home):
    file = tmp_path / "broken.toml"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"broken\.toml"):
        load({}, home, file)


def test_a_named_file_must_exist_and_be_a_file(tmp_path, home):
    with pytest.raises(UsageError, match="no file"):
        load({}, home, tmp_path / "none.toml")
    with pytest.raises(UsageError, match="directory"):
        load({}, home, tmp_path)


@pytest.mark.parametrize(("flags", "says"), [
    ({"offline": True}, "source file"),
    ({"offline": True, "source": "file:a.mp4"}, "file:PATH or null"),
    ({"offline": True, "source": "file:a.mp4", "sink": ["null"], "duration": "3"}, "duration"),
    ({"source": "file:a.mp4", "sink": ["file:./a.mp4"]}, "same file"),
    ({"offline": True, "source": "file:a.mp4", "sink": ["null"], "control": "0"}, "steers"),
    ({"offline": True, "source": "file:a.mp4", "sink": ["null"], "control-osc": "0"}, "steers"),
])  # fmt: skip
def test_what_cannot_go_together_is_said(flags, says, home):
    with pytest.raises(UsageError, match=says):
        load(flags, home)


def test_the_password_of_the_control_page_is_no_option_and_no_mistake(home):
    settings = load({}, home | {"DOPPELCAM_CONTROL_PASSWORD": "correct horse"})
    assert "correct horse" not in repr(settings)


def test_flags_alone_leave_the_environment_out(monkeypatch):
    monkeypatch.setenv("DOPPELCAM_FPS", "60")
    config = from_flags({"size": "640x480"}, BENCH)
    assert (config.fps, config.size, config.source) == (30.0, (640, 480), "portrait")


def test_flags_alone_must_go_together_too():
    with pytest.raises(UsageError, match="ource and sink are the same file") as caught:
        from_flags({"source": "file:a.mp4", "sink": ["file:./a.mp4"]}, BENCH)
    assert "config show" not in caught.value.fix
    with pytest.raises(UsageError, match="ediapipe finds faces by itself"):
        from_flags({"landmarker": "mediapipe:a.task", "detector": "yoloface_8n"}, DEMO)


def test_every_option_stands_under_one_heading_and_has_a_row_in_the_documentation():
    names = [option.name for option in OPTIONS]
    assert len(set(names)) == len(names)
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_lines_of_keys_in_every_form_of_toml():
    text = (
        'a = 1\n\n# note\nb = """\nc = 2\n"""\n"d e" = [\n  1,\n  # c = 3\n]\n\r\n'
        "[t] # table\nx.y = 1\n\n[t.u]\nz = 1\n\n[[list]]\nk = 1\n"
    )
    tomllib.loads(text)
    assert key_lines(text) == {
        ("a",): 1, ("b",): 4, ("d e",): 7, ("t",): 12, ("t", "x"): 13, ("t", "x", "y"): 13,
        ("t", "u"): 15, ("t", "u", "z"): 16, ("list",): 18,
    }  # fmt: skip
