"""From flags, environment and a TOML file to one configuration that knows where each value came from."""

from __future__ import annotations

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

from engines.errors import UsageError
from engines.files import open_regular, quoted
from realtime.settings.config import Config, contradiction
from realtime.settings.options import BY_NAME, OPTIONS, Option, typed
from realtime.settings.values import Wrong

CONFIG_VARIABLE: Final = "DOPPELCAM_CONFIG"
PASSWORD_VARIABLE: Final = "DOPPELCAM_CONTROL_PASSWORD"  # noqa: S105 - its name, not the password
"""No option: what stands on a command line or in a file is seen by others."""
_LARGEST_FILE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    Attributes:
        kind: Which door.
        where: The flag, the variable, or the file and the line; empty for a default.
    """

    kind: Literal["flag", "environment", "file", "default"]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration and where it came from.

    Attributes:
        config: What is used.
        origins: By attribute of :class:`~realtime.settings.config.Config`.
        file: The TOML file that was read, None if there was none.
    """

    config: Config
    origins: Mapping[str, Origin]
    file: Path | None


@dataclass(frozen=True, slots=True)
class _Given:
    """One value somebody gave."""

    option: Option
    value: Any
    origin: Origin
    called: str
    """What to call it in a message."""


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the user's configuration lies if nobody says otherwise."""
    if sys.platform == "win32":
        folder = Path(environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "doppelcam" / "config.toml"


def load(flags: Mapping[str, Any], environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """Reads everything that was given; a flag beats the environment, that beats the file, that the default.

    Args:
        flags: Values from the command line by option name, only those that were given.
        environ: The environment.
        file: From ``--config``; without it ``DOPPELCAM_CONFIG``, then the user's own file if there is one.

    Raises:
        UsageError: A key or variable is unknown, a value is wrong (the sentence names it, and the line of the
            file), or the file cannot be read.
    """
    named = file or (Path(environ[CONFIG_VARIABLE]).expanduser() if environ.get(CONFIG_VARIABLE) else None)
    path = named or default_file(environ)
    from_file = list(_from_file(path)) if named or path.is_file() else []
    values: dict[str, Any] = {}
    origins = {field.name: Origin("default") for field in fields(Config)}
    for given in (*from_file, *_from_environment(environ), *_from_flags(flags)):
        values[given.option.field] = _checked(given)
        origins[given.option.field] = given.origin
    config = _consistent(Config(**values), "See where each value comes from: doppelcam config show")
    return Settings(config, origins, path if named or path.is_file() else None)


def from_flags(flags: Mapping[str, Any], base: Config) -> Config:
    """A configuration from flags alone, for verbs that must do the same whatever the user's file says.

    Raises:
        UsageError: A value is wrong, or two do not go together.
    """
    values = {field.name: getattr(base, field.name) for field in fields(Config)}
    values.update({given.option.field: _checked(given) for given in _from_flags(flags)})
    return _consistent(Config(**values), "See the verb's --help.")


def _consistent(config: Config, fix: str) -> Config:
    problem = contradiction(config)
    if problem:
        raise UsageError(problem[0].upper() + problem[1:], fix)
    return config


def _checked(given: _Given) -> Any:
    try:
        return given.option.read(given.value)
    except (ValueError, TypeError, OverflowError) as error:
        detail = f": {error}" if isinstance(error, Wrong) else ""
        shown = typed(list(given.value) if isinstance(given.value, tuple) else given.value)
        raise UsageError(
            f"{given.called} must be {given.option.expects}, not '{shown}'{detail}.", _fix(given.origin)
        ) from error


def _fix(origin: Origin) -> str:
    if origin.kind == "flag":
        return "See: doppelcam run --help"
    if origin.kind == "environment":
        return f"Change or unset {origin.where}."
    return f"Change it in {origin.where}."


def number_of(flag: str, text: str, low: float, high: float) -> float:
    """The number behind a flag that is no option of a configuration.

    Raises:
        UsageError: It is none, or out of range.
    """
    try:
        value = float(text)
        if low <= value <= high:
            return value
    except ValueError:
        pass
    raise UsageError(
        f"{flag} must be a number from {low:g} to {high:g}, not '{text}'.", "See the verb's --help."
    )


def did_you_mean(word: str, known: list[str]) -> str:
    """The nearest known word as a question; empty if none is near."""
    near = difflib.get_close_matches(word, known, 1, 0.6)
    return f"Did you mean {near[0]}?" if near else ""


def _from_flags(flags: Mapping[str, Any]) -> Iterator[_Given]:
    for name, value in flags.items():
        flag = f"--no-{name}" if value is False else f"--{name}"
        yield _Given(BY_NAME[name], value, Origin("flag", flag), flag)


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Given]:
    known = {option.variable: option for option in OPTIONS}
    for variable, value in environ.items():
        if not variable.startswith("DOPPELCAM_") or variable in (CONFIG_VARIABLE, PASSWORD_VARIABLE):
            continue
        if variable not in known:
            hint = did_you_mean(variable, [*known, CONFIG_VARIABLE, PASSWORD_VARIABLE])
            raise UsageError(
                f"The environment variable {variable} is not known.", f"{hint} Unset it.".strip()
            )
        option = known[variable]
        given = [part for part in value.split(";") if part.strip()] if option.kind == "many" else value
        yield _Given(option, given, Origin("environment", variable), variable)


def _from_file(path: Path) -> Iterator[_Given]:
    text = _read(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path} is not valid TOML: {error}.", "Mend that line, or move the file away."
        ) from error
    lines = key_lines(text)
    for name, value in table.items():
        line = lines.get((name,), 1)
        if name not in BY_NAME:
            hint = did_you_mean(name.replace("_", "-"), list(BY_NAME))
            raise UsageError(f"{path}, line {line}: the key '{name}' is not known.", hint or "Remove it.")
        option = BY_NAME[name]
        value = _anchored(value, path.parent, option.paths) if option.paths else value
        origin = Origin("file", f"{path}:{line}")
        if isinstance(value, dict):
            # Each part is tried alone first, so that a mistake is named with its own line.
            for part, one in value.items():
                line = lines.get((name, part), line)
                _checked(
                    _Given(
                        option, {part: one}, Origin("file", f"{path}:{line}"), f"{path}, line {line}: {name}"
                    )
                )
        yield _Given(option, value, origin, f"{path}, line {line}: {name}")


def _read(path: Path) -> str:
    with open_regular(path, "a configuration file") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise UsageError(
            f"{quoted(path)} is too large for a configuration.", "Name the right file with --config."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{quoted(path)} is not UTF-8 text.", "Save it as UTF-8.") from error


def _anchored(value: Any, folder: Path, paths: str) -> Any:
    """Relative paths in a file mean relative to the file."""
    if isinstance(value, list):
        return [_anchored(one, folder, paths) for one in value]
    if not isinstance(value, str):
        return value
    if paths == "pair":
        return "=".join(_anchored(part, folder, "plain") for part in value.split("="))
    if paths == "models":
        return ",".join(_anchored(part, folder, "model") for part in value.split(","))
    if paths == "model":
        return _anchored_model(value, folder)
    kind, colon, target = value.partition(":") if paths == "spec" else ("", "", value)
    if not target.strip() or kind not in ("", "file", "portrait"):
        return value
    return f"{kind}{colon}{folder / target}" if not target.startswith("~") else value


_MODEL_FILE: Final = re.compile(r"(.*?\.(?:onnx|dfm|task))(:.*)?", re.IGNORECASE)


def _anchored_model(text: str, folder: Path) -> str:
    """A network's file is told by its suffix, and may have something before and behind it: ``ghost_1_256=my.onnx``,
    ``mediapipe:my.task``, ``my.onnx:0.8:2``."""
    before, equals, named = text.rpartition("=")
    kind, colon, bundle = named.partition("mediapipe:")
    before, named = (
        (before + equals + colon, bundle) if colon and not kind.strip() else (before + equals, named)
    )
    file = _MODEL_FILE.fullmatch(named.strip())
    if file is None or file[1].startswith("~"):
        return text
    return f"{before}{folder / file[1]}{file[2] or ''}"


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, on which each key of a valid TOML text begins.

    The parser does not tell, so it is asked about every beginning of the text: a key's line is the first one
    behind the last beginning that was valid without it.
    """
    found: dict[tuple[str, ...], int] = {}
    lines = text.replace("\r\n", "\n").split("\n")
    start = 1
    for end, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            table = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in _keys(table):
            found.setdefault(key, _first_code(lines, start))
        start = end + 1
    return found


def _first_code(lines: list[str], start: int) -> int:
    while not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#"):
        start += 1
    return start


def _keys(table: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _keys(cast("Mapping[str, Any]", value), (*prefix, name))
