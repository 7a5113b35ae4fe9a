"""A model's file, looked at before a runtime opens it: each thing that it may be instead gets its own sentence."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from engines.errors import EngineError, UsageError
from engines.files import open_regular, quoted, sha256_of
from engines.runtime.model.format import External, Outline, read_outline
from engines.runtime.model.protobuf import Malformed, Truncated
from engines.runtime.ort.bindings import brief

HEAD: Final = 1024
"""Bytes that tell what a file is."""

_AGAIN: Final = "Copy or download it again."
_LFS: Final = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Hint:
    """What whoever names a model knows of it.

    Attributes:
        fix: The command that brings the right file.
        sha256: Of the right file, in hexadecimal; empty when nobody knows it.
    """

    fix: str
    sha256: str = ""


SHIPPED: Final = Hint("Install doppelcam again: it ships with it.")
"""For the networks in the package."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that is an ONNX model as far as its bytes tell.

    Attributes:
        path: Where it lies.
        size: Bytes.
        outline: What it says of itself.
        hint: What is known of it.
    """

    path: Path
    size: int
    outline: Outline
    hint: Hint | None = None

    def refused(self, reason: Exception) -> EngineError:
        """What to raise when a runtime does not take it.

        Args:
            reason: What the runtime raised; each has classes of its own.
        """
        what, fix = _meaning(str(reason), self.outline)
        return _broken(self.path, what, self.hint, fix)


def read_model_file(path: Path, hint: Hint | None = None) -> ModelFile:
    """Looks at a file before it is opened.

    Args:
        path: The ``.onnx`` or ``.dfm`` file.
        hint: What is known of it.

    Raises:
        EngineError: It is missing, empty, truncated, something else than a model, or names weights outside of its
            folder or that are not there. The sentence names the file, its size and its sha256.
    """
    if not path.exists():
        raise EngineError(f"The network {quoted(path)} is missing.", _fix(hint, "Give the path of its file."))
    try:
        file = open_regular(path, "a network")
    except UsageError as error:
        raise EngineError(error.what, _fix(hint, error.fix)) from None
    with file:
        size, kind = path.stat().st_size, stranger(file.read(HEAD))
        if kind:
            raise _broken(path, f"is {kind}, not an ONNX model", hint)
        try:
            outline = outline_of(file)
        except Truncated as cut:
            what = f"is cut off: at least {cut.promised:,} bytes belong to it"
            raise _broken(path, what, hint) from None
        except Malformed as wrong:
            raise _broken(path, f"is not an ONNX model: {wrong}", hint) from None
    for external in outline.external:
        _check_external(path, external, hint)
    return ModelFile(path, size, outline, hint)


def outline_of(file: BinaryIO) -> Outline:
    """The outline of an open file that is not empty.

    Raises:
        Malformed: It is no ONNX model.
        Truncated: It begins as one and is cut off.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
        return read_outline(data)


def stranger(head: bytes) -> str:
    """What a file is that is plainly no ONNX model, with its article; empty if it may be one.

    Args:
        head: Its first bytes, :data:`HEAD` of them if it has so many.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith(_LFS):
        wanted = re.search(rb"oid sha256:([0-9a-f]{64})\s+size (\d{1,15})", text)
        of = f" to a file of {int(wanted[2]):,} bytes with sha256 {wanted[1].decode()}" if wanted else ""
        return f"a Git LFS pointer{of}"
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--", b"<svg", b"<script")):
        return "a web page (HTML or XML)"
    if text.startswith((b"{", b"[")) and text[1:2] in (b'"', b"\n", b"\r", b" ", b"{", b"}"):
        return "JSON text, perhaps a server's answer"
    if not head.strip(b"\0"):
        return "zeros, perhaps a download that was interrupted"
    for magic, name in _MAGICS:
        if head.startswith(magic):
            return name
    if head[4:8] == b"ORTM":
        return "a model in ONNX Runtime's own format (.ort)"
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if re.match(rb"\{.{0,40}__metadata__|\{\"", head[8:64]):
        return "a safetensors file"
    # No field of a model begins with a blank or the end of a line.
    return "text" if head[:1].isspace() else ""


_MAGICS: Final = (
    (b"PK\x03\x04", "a ZIP archive or a PyTorch checkpoint"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x80\x02", "a pickle (an old PyTorch checkpoint)"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"ptrt", "a TensorRT plan"),
    (b"ftrt", "a TensorRT plan"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)


def _check_external(path: Path, external: External, hint: Hint | None) -> None:
    """Weights beside the model are taken from its own folder only: a model must not name what it likes."""
    shown = repr(external.location[:200])
    parts = re.split(r"[\\/]", external.location)
    rooted = external.location.startswith(("/", "\\")) or ":" in parts[0]
    if rooted or ".." in parts or "\0" in external.location or not external.location:
        raise _broken(path, f"takes its weights from outside of its folder ({shown}), which is refused", hint,
                      "Do not use it unless you know who made it.")  # fmt: skip
    folder = path.resolve().parent
    weights = folder.joinpath(*parts)
    try:
        inside = weights.resolve().is_relative_to(folder)
        size = weights.stat().st_size if weights.is_file() else -1
    except OSError:
        inside, size = True, -1
    if not inside:
        raise _broken(path, f"takes its weights through a link that leaves its folder ({shown})", hint,
                      "Put the file itself beside the model.")  # fmt: skip
    if size < 0:
        raise _broken(path, f"has its weights in a second file, {shown}, which is not beside it", hint,
                      "Put it into the same folder.")  # fmt: skip
    if size < external.end:
        cut = f"which is cut off: {size:,} of at least {external.end:,} bytes"
        raise _broken(path, f"has its weights in a second file, {shown}, {cut}", hint)


def _meaning(reason: str, outline: Outline) -> tuple[str, str]:
    """What a runtime's refusal means, and the fix; the fix is empty where only a better file helps."""
    newer = re.search(r"IR version: (\d+), max supported IR version: (\d+)", reason)
    if newer:
        what = f"is in version {newer[1]} of the ONNX format, and this ONNX Runtime reads up to {newer[2]}"
        return what, "Type: pip install -U onnxruntime"
    if "under development" in reason and "pset" in reason:
        what = f"uses opset {outline.opset}, which is newer than this ONNX Runtime knows"
        return what, "Type: pip install -U onnxruntime"
    unknown = re.search(r"No Op registered for (\S+) with domain_version of (\d+)", reason)
    if unknown:
        what = f"uses the operator {unknown[1]}, which opset {unknown[2]} does not have in this ONNX Runtime"
        return what, "Export it again with standard operators, or update ONNX Runtime."
    missing = re.search(
        r"(?:Could not find an implementation for|is not a registered function/op)\W*([\w.]*)", reason
    )
    if missing:
        return f"uses an operator that this ONNX Runtime does not run: {brief(reason)}", "Export it again."
    return f"is not a model that ONNX Runtime can read: {brief(reason)}", ""


def _broken(path: Path, what: str, hint: Hint | None, fix: str = "") -> EngineError:
    digest, size = _sum(path), path.stat().st_size if path.exists() else 0
    known = hint.sha256.lower() if hint else ""
    about = f"{size:,} bytes, sha256 {digest}"
    if known and known != digest:
        # Whatever the runtime dislikes, this is why: the file is another one than it should be.
        return EngineError(
            f"The network {quoted(path)} {what}. It has {about}; the right one has sha256 {known}.",
            _fix(hint, ""),
        )
    return EngineError(f"The network {quoted(path)} {what} ({about}).", fix or _fix(hint, _AGAIN))


def _fix(hint: Hint | None, otherwise: str) -> str:
    return hint.fix if hint else otherwise


def _sum(path: Path) -> str:
    try:
        return sha256_of(path)
    except UsageError as error:
        return f"unknown ({error.what.rstrip('.')})"
