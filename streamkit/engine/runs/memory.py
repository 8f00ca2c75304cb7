"""
Memory of processes that run epochs, workers of Spark and local runs: what an epoch has used is kept for the next one.

Arrow and numpy allocate megabytes at a time and free them all when a task ends. Given back to the system, that memory is
faulted in again, page by page, in every epoch: for 2 M rows some 10,000 page faults a task, 0.14 s of system time where the
machine is virtual. Kept, they are 600 and 0.02 s.
"""

from __future__ import annotations

import ctypes
import platform

import pyarrow as pa

KEPT_BYTES_MAX = 512 << 20  # free memory beyond this goes back to the system
MAPPED_BYTES_MIN = 32 << 20  # the largest bound glibc takes; larger blocks are mapped and unmapped one by one
GROWTH_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h


def keep_memory() -> None:
    """Let this process keep up to `KEPT_BYTES_MAX` of freed memory; without glibc, nothing changes."""
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
    libc.mallopt(_M_TOP_PAD, GROWTH_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
