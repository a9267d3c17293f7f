"""How many megabytes each extra adds on disk, for the table of README; what smoothcert needs anyway is left out.

    python benchmarks/extras.py

It installs each extra into a folder of its own, by pip or uv, and sums the files of the packages that are new there.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
OF_TORCH = re.compile(r"nvidia|cuda|triton")


def name_of(distribution):
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"].lower())


def installed(requirements, place):
    """The packages, and the bytes of each, that pip brings for some requirements."""
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", sys.executable]
    subprocess.run([*command, "--target", str(place), *requirements], check=True)
    return {
        name_of(found): sum(
            f.locate().stat().st_size for f in found.files or () if f.locate().is_file()
        )
        for found in distributions(path=[str(place)])
    }


def main():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as folder:
        base = installed(project["dependencies"], Path(folder) / "base").keys()
        for name, requirements in project["optional-dependencies"].items():
            if name in ("dev", "docs"):
                continue
            sizes = installed(requirements, Path(folder) / name)
            new = sum(n for one, n in sizes.items() if one not in base and not OF_TORCH.match(one))
            print(f"{name:<12} {new / 1e6:>5.0f} MB", flush=True)


if __name__ == "__main__":
    main()
