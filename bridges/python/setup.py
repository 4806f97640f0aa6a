"""Builds the extension from the sources around this folder: `make wheel` calls it.

It is linked with MQKV_BUILD/libclientk.a (build/), which the wheel then contains; where it is
missing, it is built by make first, so that `pip wheel ./bridges/python` works in a clone. With
MQKV_SHARED=1 it is linked with the libclientk.so that is installed: for packages of a distribution.
MQKV_PROGRAMS names a folder of programs that the package shall carry in mqkv/bin, which
`make wheel` fills; without it there are none.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("MQKV_BUILD", ROOT / "build"))
SHARED = os.environ.get("MQKV_SHARED", "0") not in ("", "0")
PROGRAMS = sorted(pathlib.Path(os.environ["MQKV_PROGRAMS"]).resolve().iterdir()
                  if os.environ.get("MQKV_PROGRAMS") else ())
NAMES = [path.name for path in PROGRAMS if os.access(path, os.X_OK)]  # the others are their terms

version = re.search(r'MQKV_VERSION_STRING "(.*)"', (ROOT / "include/mqkv/version.h").read_text())
os.chdir(HERE)
if not SHARED and not (BUILD / "libclientk.a").exists():
    # A clone in which nothing was built yet. It takes make, gcc and pkg-config.
    subprocess.run(["make", "-s", "-C", str(ROOT), f"OUT={BUILD}", str(BUILD / "libclientk.a")],
                   check=True)
(BUILD / "wheel").mkdir(parents=True, exist_ok=True)



class BuildWithPrograms(build_py):
    """Puts the programs beside the modules."""

    def run(self):
        super().run()
        folder = pathlib.Path(self.build_lib, "mqkv/bin")
        for path in PROGRAMS:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)


setup(
    version=version.group(1),
    ext_modules=[
        Extension(
            "mqkv._mqkv",
            sources=sorted(str(path) for path in pathlib.Path("extension").glob("*.c")),
            include_dirs=[str(ROOT), str(ROOT / "include")],
            define_macros=[("_GNU_SOURCE", "1"), ("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden"],
            extra_link_args=["-pthread", "-Wl,-z,nodelete", "-Wl,--exclude-libs,ALL",
                             *(["-s"] if PROGRAMS else [])],
            extra_objects=[] if SHARED else [str(BUILD / "libclientk.a")],
            libraries=["clientk"] if SHARED else ["m"],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_py": BuildWithPrograms},
    entry_points={"console_scripts": ["mqkv-redis = mqkv.redis:main",
                                      *(f"{name} = mqkv.programs:{name}" for name in NAMES)],
                  "dogpile.cache": ["mqkv = mqkv.dogpile:Backend"]},
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        "build": {"build_base": str(BUILD / "wheel/build")},
        "egg_info": {"egg_base": str(BUILD / "wheel")},
    },
)
