"""Key groups: which task and which changelog partition own them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamkit.arrays import AnyArray


def key_group_range(task: int, tasks: int, key_groups: int) -> range:
    """The key groups of a task: contiguous, as even as can be, the inverse of `task_of_key_group`."""
    return range(-(-task * key_groups // tasks), -(-(task + 1) * key_groups // tasks))


def task_of_key_group(key_group: int, tasks: int, key_groups: int) -> int:
    """The task that owns a key group."""
    return key_group * tasks // key_groups


def tasks_of_key_groups(groups: AnyArray, tasks: int, key_groups: int) -> npt.NDArray[np.uint16]:
    """As `task_of_key_group`, of many; numpy sorts numbers of 16 bits in linear time."""
    owners = np.array([task_of_key_group(group, tasks, key_groups) for group in range(key_groups)], np.uint16)
    owned: npt.NDArray[np.uint16] = owners[groups]
    return owned


def changelog_partitions_of(groups: range, key_groups: int, partitions: int) -> range:
    """The changelog partitions that hold a range of key groups."""
    return (
        range(groups.start * partitions // key_groups, (groups.stop - 1) * partitions // key_groups + 1) if groups else range(0)
    )
