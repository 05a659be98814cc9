"""Arrays that cannot be used are refused in words."""

import array
import os
import subprocess
import sys

import numpy as np
from check import refused

import tutti
from tutti import as_tensor


class OnlyDLPack:
    def __dlpack__(self):
        return np.ones(3).__dlpack__()


class OnDevice:
    device, dtype, shape = type("device", (), {"type": "cuda", "__str__": lambda _: "cuda:1"})(), "float32", (1,)

    def data_ptr(self):
        return 0

    def is_contiguous(self):
        return True


def refuse(words, *arguments, **options):
    refused(tutti.InvalidError, words, as_tensor, *arguments, **options)


frozen = np.ones(3)
frozen.flags.writeable = False
refuse("ndarray is not contiguous", np.ones((3, 3))[:, 1])
refuse("ndarray is not contiguous", np.ones((3, 3)).T)
refuse("memoryview is not contiguous", memoryview(bytearray(8))[::2])
refuse("is read-only", frozen, writable=True)
refuse("bytes would be written", b"abc", writable=True)
refuse("DLPack alone", OnlyDLPack(), writable=True)
refuse("list is no array", [1.0, 2.0])
refuse("no type of elements 'complex128'", np.ones(2, complex))
refuse("no type of elements '>f4'", np.ones(2, ">f4"))
refuse("buffer format", array.array("u", "ab"))
refuse("device cuda:1", OnDevice())
refuse("sizes differ", np.ones(2), dtype="bfloat16")
refuse("no type of elements 'float128'", np.ones(2), dtype="float128")
assert as_tensor(np.ones(2, np.uint8), dtype="float8_e5m2").dtype == tutti.DTYPES["float8_e5m2"]
assert as_tensor(np.ones((2, 0, 3))).count == 0

with tutti.Context() as job:
    refused(tutti.InvalidError, "output has 2 elements; the result has 3", job.allreduce,
            np.ones(3), np.ones(2))
    refused(tutti.InvalidError, "input is of float32, but the output of float64", job.allreduce,
            np.ones(3, "f4"), np.ones(3))
    refused(tutti.InvalidError, "no rows", job.allgather, np.float64(1))
    refused(tutti.InvalidError, "sum is the number of rows, 3", job.alltoall, np.ones(3), [2])
    refused(tutti.InvalidError, "2 inputs but 1 outputs", job.grouped_allreduce,
            [np.ones(1)] * 2, [np.ones(1)])
    refused(tutti.UnsupportedError, "bool", job.allreduce, np.ones(3, bool))
    refused(tutti.UnsupportedError, "prescale", job.allreduce, np.ones(3, int), prescale=2.0)
    refused(tutti.InvalidError, "name", job.allreduce, np.ones(3), name="")


def import_with(**variables):
    """What `import tutti` says in another process."""
    return subprocess.run([sys.executable, "-c", "import tutti"], text=True, capture_output=True,
                          env={**os.environ, **variables}).stderr


def refused_import(words, **variables):
    said = import_with(**variables)
    assert words in said, said


refused_import("tutti cannot load its C library. Tried:\n  /nowhere/libtutti.so.0: ", TUTTI_LIBRARY="/nowhere/libtutti.so.0")
refused_import("set TUTTI_LIBRARY", TUTTI_LIBRARY="/nowhere/libtutti.so.0")
refused_import("ImportError: libm.so.6 is not libtutti", TUTTI_LIBRARY="libm.so.6")
lacks_mpi = [("libtutti.so.0", "libtutti.so.0: cannot open shared object file: No such file or directory"),
             ("/opt/lib/libtutti.so.0", "libmpi.so.40: cannot open shared object file: No such file or directory")]
assert tutti._c._advice(lacks_mpi).startswith("/opt/lib/libtutti.so.0 is there, but libmpi.so.40 is not found")
assert "Install libtutti" in tutti._c._advice(lacks_mpi[:1])
# In the prefix of tuttirun, which is on the PATH.
assert import_with(TUTTI_LIBRARY="", LD_LIBRARY_PATH="",
                   PATH=f"{os.path.dirname(os.environ['TUTTIRUN'])}:{os.environ['PATH']}") == ""
