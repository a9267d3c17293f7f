"""A pack -> a run folder. A pack may come from anyone, so nothing in it is believed before it is checked."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from smoothcert.errors import StoreError
from smoothcert.files import file_sha256, write_error

SUMS = "SHA256SUMS"  # of all other members, as `sha256sum` prints and checks them
_BLOCK = 1 << 20
_DEEPEST = 10  # folders in folders; ours has 4 levels


def unpack(pack: Path, target: Path) -> Path:
    """Unpack into a new folder below `target`, whole or not at all; returns that run folder.

    Packs are not compressed, so no member can be larger than the file. Names that lead elsewhere, lie deep or have
    control characters, links, names that occur twice and compressed members are refused before anything is written.
    """
    if not pack.is_file():
        raise StoreError(f"{pack}: no such file; expected one made by `smoothcert pack`")
    try:
        with zipfile.ZipFile(pack) as archive:
            members = archive.infolist()
            root = target / _checked_root(pack, members)
            if root.exists() or root.is_symlink():
                raise StoreError(
                    f"{root} is there already: move it away, or unpack to another folder"
                )
            target.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".unpack-", dir=target) as temporary:
                for member in members:
                    _extract(archive, member, Path(temporary))
                os.rename(Path(temporary) / root.name, root)
            return root
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise StoreError(
            f"{pack} is damaged or no pack of smoothcert ({error}): get it again"
        ) from error
    except OSError as error:
        raise write_error(target, error) from error


def altered_members(run: Path) -> list[str]:
    """What a pack that was unpacked just now holds otherwise than its own list says."""
    path = run / SUMS
    if not path.is_file():
        return [f"{SUMS} is missing, so that nothing says what the pack holds: pack the run again"]
    lines = (line.partition("  ") for line in path.read_text(errors="replace").splitlines())
    named = {name or digest: digest for digest, _, name in lines}
    there = {
        file.relative_to(run).as_posix(): file_sha256(file)
        for file in run.rglob("*")
        if file.is_file() and file != path
    }
    told = {(True, True): "was altered", (True, False): "is not there", (False, True): "is extra"}
    return [
        f"{name} {told[name in named, name in there]}, by {SUMS} of the pack"
        for name in sorted(named.keys() | there.keys())
        if named.get(name) != there.get(name)
    ]


def _checked_root(pack: Path, members: list[zipfile.ZipInfo]) -> str:
    """The one folder that all members lie in; an error names the first member that no pack has."""
    seen: set[str] = set()
    roots = {PurePosixPath(member.filename).parts[:1] for member in members}
    for member in members:
        name, parts = member.filename, PurePosixPath(member.filename).parts
        kind = stat.S_IFMT(member.external_attr >> 16)
        for bad, why in (
            (name != "/".join(parts) or len(parts) < 2, "is no plain file in a folder"),
            (
                any(part in ("..", ".") or set(part) & set('\\:\0*?"<>|') for part in parts),
                "leads elsewhere",
            ),
            (name.startswith("/"), "leads elsewhere"),
            (not name.isprintable(), "has control characters"),
            (len(parts) > _DEEPEST, "lies too deep"),
            (kind not in (0, stat.S_IFREG), "is a link or no plain file"),
            (name.lower() in seen, "occurs twice"),
            (
                member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1,
                "is compressed or encrypted",
            ),
            (member.compress_size != member.file_size, "has two sizes"),
        ):
            if bad:
                raise StoreError(
                    f"{pack} is no pack of smoothcert: its member {name[:200]!r} {why}. Nothing was unpacked"
                )
        seen.add(name.lower())
    if len(roots) != 1:
        raise StoreError(
            f"{pack} is no pack of smoothcert: expected one folder in it, found {len(roots)}"
        )
    if sum(member.file_size for member in members) > pack.stat().st_size:
        raise StoreError(
            f"{pack} is no pack of smoothcert: its members overlap. Nothing was unpacked"
        )
    return members[0].filename.split("/")[0]


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    path = folder.joinpath(*member.filename.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("xb") as file:  # checks the CRC at the end
        shutil.copyfileobj(source, file, _BLOCK)
