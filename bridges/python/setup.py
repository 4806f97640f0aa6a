"""Builds the extension from the sources around this folder: `make wheel` calls it.

It is linked with MQKV_BUILD/libclientk.a (build/), which the wheel then contains; where it is
missing, it is built by make first, so that `pip wheel ./bridges/python` works in a clone. With
MQKV_SHARED=1 it is linked with the libclientk.so that is installed: for packages of a distribution.
"""

import os
import pathlib
import re
import subprocess

from setuptools import Extension, setup

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("MQKV_BUILD", ROOT / "build"))
SHARED = os.environ.get("MQKV_SHARED", "0") not in ("", "0")

version = re.search(r'MQKV_VERSION_STRING "(.*)"', (ROOT / "include/mqkv/version.h").read_text())
os.chdir(HERE)
if not SHARED and not (BUILD / "libclientk.a").exists():
    # A clone in which nothing was built yet. It takes make, gcc and pkg-config.
    subprocess.run(["make", "-s", "-C", str(ROOT), f"OUT={BUILD}", str(BUILD / "libclientk.a")],
                   check=True)
(BUILD / "wheel").mkdir(parents=True, exist_ok=True)

setup(
    version=version.group(1),
    ext_modules=[
        Extension(
            "mqkv._mqkv",
            sources=sorted(str(path) for path in pathlib.Path("extension").glob("*.c")),
            include_dirs=[str(ROOT), str(ROOT / "include")],
            define_macros=[("_GNU_SOURCE", "1"), ("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden"],
            extra_link_args=["-pthread", "-Wl,-z,nodelete", "-Wl,--exclude-libs,ALL"],
            extra_objects=[] if SHARED else [str(BUILD / "libclientk.a")],
            libraries=["clientk"] if SHARED else ["m"],
            py_limited_api=True,
        )
    ],
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        "build": {"build_base": str(BUILD / "wheel/build")},
        "egg_info": {"egg_base": str(BUILD / "wheel")},
    },
)
