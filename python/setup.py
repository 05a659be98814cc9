"""What pyproject.toml cannot say: CMake builds the library, which goes into the package with the libraries that it needs.

TUTTI_BUILD may name a finished build of CMake, which is taken instead; its prefix may not be /usr.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
COMPONENTS = ("lib", "openmpi", "mpich", "ucx", "bin", "bench")  # of the installation
# Of each system; and its MPI.
OUTSIDE = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|ld-linux|libmpi")
carried = []  # files of the system that are in the wheel


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


def cmake_build():
    if os.environ.get("TUTTI_BUILD"):
        return os.environ["TUTTI_BUILD"]
    for step in (), ("--build",):
        subprocess.run(["cmake", *step, "--preset", "wheel"], check=True, cwd=ROOT)
    return ROOT / "build" / "wheel"


def install(package):
    """Into a prefix inside of the package: tuttirun and libtutti find what is theirs in the same places as in any other."""
    build = cmake_build()
    for folder in "bin", "include", "lib", "share":
        shutil.rmtree(package / folder, ignore_errors=True)
    for component in COMPONENTS:
        run("cmake", "--install", build, "--prefix", package, "--component", component, "--strip")
    shutil.copytree(ROOT / "include" / "tutti", package / "include" / "tutti")
    (package / "bin" / "horovodrun").unlink()
    for folder in "man", "bash-completion":
        shutil.rmtree(package / "share" / folder, ignore_errors=True)
    for link in (package / "lib").glob("*.so.*"):  # a wheel has no links: each library has the name that is looked for
        if link.is_symlink():
            link.resolve().replace(link)


def renamed(name):
    """A library of the system keeps its own name for the MPI that needs it, too."""
    return name.replace(".so", "-tutti.so", 1)


def adapt(file, lib, carry):
    """Has a file find what is in lib, after carry() was called for what is not."""
    options = ["--set-rpath", f"$ORIGIN/{os.path.relpath(lib, file.parent)}"]
    where = dict(re.findall(r"(\S+) => (/\S+)", run("ldd", file)))
    for name in run("patchelf", "--print-needed", file).split():
        if OUTSIDE.match(name) or (lib / name).exists():
            continue
        if not (lib / renamed(name)).exists():
            carry(where.get(name), lib / renamed(name))
        if (lib / renamed(name)).exists():
            options += ["--replace-needed", name, renamed(name)]
    run("patchelf", *options, file)


def complete(package):
    """Adds the libraries of the system that those here need, and theirs, under names of their own."""
    lib = package / "lib"
    files = [path for path in (*lib.rglob("*.so*"), *(package / "bin").iterdir()) if path.is_file()]

    def carry(source, target):
        if source is None:
            raise SystemExit(f"{target.name}: the library that it stands for is not found on this machine (ldd shows it)")
        carried.append(source)
        files.append(Path(shutil.copy(source, target)))
        run("patchelf", "--set-soname", target.name, target)

    for file in files:  # which grows
        adapt(file, lib, carry)
    # UCX looks for its modules there, by the ending of its own name. A module that needs more, such as a driver, is left out
    # by UCX where that is missing.
    for library in filter(re.compile(r".*/libucs\.so").match, carried):
        (lib / "ucx").mkdir()
        for module in (Path(library).parent / "ucx").glob("*" + os.path.basename(library)[len("libucs"):]):
            adapt(Path(shutil.copy(module, lib / "ucx")), lib, lambda *_: None)


def licences(folder):
    """Puts the licences of tutti and of what is carried into a folder."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder)
    for file in carried:
        owner = ""
        if shutil.which("dpkg-query"):
            owner = run("sh", "-c", 'dpkg-query -S "*/$0" | cut -d: -f1', os.path.basename(os.path.realpath(file))).split("\n")[0]
        text = Path("/usr/share/doc", owner, "copyright")
        if text.is_file():
            shutil.copy(text, folder / f"{owner}.txt")
        else:
            print(f"warning: no licence of {file} is found; whoever passes the wheel on has to add it", file=sys.stderr)


class Build(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib, "tutti").resolve()
        install(package)
        complete(package)


class Platform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        """For each Python, and each system with a C library as new as that of this one."""
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{sysconfig.get_platform().split('-', 1)[1].replace('-', '_')}"

    def write_wheelfile(self, wheelfile_base, *arguments, **named):
        super().write_wheelfile(wheelfile_base, *arguments, **named)
        licences(Path(wheelfile_base, "licenses"))


header = (ROOT / "include" / "tutti" / "tutti.h").read_text()
setup(version=re.search('TUTTI_VERSION_STRING "(.*)"', header)[1], distclass=Platform,
      cmdclass={"build_py": Build, "bdist_wheel": Wheel})
