"""Compiles the inner loops of maps when the distribution is built or installed in editable mode.

The compiler is clang from the ``ziglang`` package, so a machine needs no compiler of its own and
every machine gets the same code. The libraries use no Python headers, so one wheel serves all
versions of Python on a platform.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/mastaba_render/native")
# Name of each library, and the processors it is for. The program loads the best that fits.
VARIANTS = {
    "x86_64": {"kernels.so": "x86_64", "kernels-avx2.so": "x86_64_v3"},
    "aarch64": {"kernels.so": "generic"},
}
# A product and the sum it goes into may be rounded once instead of twice.
OPTIONS = (
    *("-std=c11", "-O3", "-ffp-contract=fast", "-fvisibility=hidden"),
    *("-fPIC", "-shared", "-s"),
)
# The oldest C library that the code runs on; the tag of the wheel says it.
GLIBC = (2, 17)


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the compiled libraries to wheels."""

    def dependencies(self) -> list[str]:
        """Return what has to be installed before `initialize` can run."""
        return [] if self._is_current() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the libraries unless they are newer than their sources."""
        if self.target_name != "wheel":
            return
        if not self._is_current():
            for name, processor in self._variants().items():
                self._compile(name, processor)
        build_data["artifacts"] += [f"/{FOLDER}/{name}" for name in self._variants()]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{_machine()}"

    def _compile(self, name: str, processor: str) -> None:
        target = f"{_machine()}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, f"-mcpu={processor}"]
        library = self._path(name)
        # A running process may have the old library loaded, so it is replaced, not overwritten.
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [*compiler, *OPTIONS, "-o", made, self._path("kernels.c"), "-lm"], check=True
        )
        made.replace(library)

    def _is_current(self) -> bool:
        sources = [Path(__file__), *self._path("").glob("*.[ch]")]
        try:
            oldest = min(self._path(name).stat().st_mtime for name in self._variants())
        except FileNotFoundError:
            return False
        return all(source.stat().st_mtime <= oldest for source in sources)

    def _variants(self) -> dict[str, str]:
        if sys.platform != "linux" or _machine() not in VARIANTS:
            raise SystemExit(
                f"the kernels of maps run on Linux on {' and '.join(VARIANTS)}, not on "
                f"{sysconfig.get_platform()}; use a container or a virtual machine"
            )
        return VARIANTS[_machine()]

    def _path(self, name: str) -> Path:
        return Path(self.root) / FOLDER / name


def _machine() -> str:
    return sysconfig.get_platform().rpartition("-")[2]
