"""
The functions that there are: importing this enters the operations of all families, and gives the handles that users call.

A family lists its handles in `__all__`, so a function that is added to one needs no line here; a new family needs one.
"""

from __future__ import annotations

import streamkit.expressions.python.python_functions  # calls of users' functions, whose handles are made by F.udf
import streamkit.expressions.times.time_sequences  # noqa: F401 - sequence() of times, whose handle stands with arrays
from streamkit.expressions.aggregates.families import *  # noqa: F403
from streamkit.expressions.casts.attempts import *  # noqa: F403
from streamkit.expressions.casts.casts import *  # noqa: F403
from streamkit.expressions.casts.format_strings import *  # noqa: F403
from streamkit.expressions.core.numbers import *  # noqa: F403
from streamkit.expressions.json.functions import *  # noqa: F403
from streamkit.expressions.logic.assertions import *  # noqa: F403
from streamkit.expressions.logic.conditions import *  # noqa: F403
from streamkit.expressions.nested.arrays import *  # noqa: F403
from streamkit.expressions.nested.lambdas import *  # noqa: F403
from streamkit.expressions.nested.maps import *  # noqa: F403
from streamkit.expressions.nested.structs import *  # noqa: F403
from streamkit.expressions.numbers.bits import *  # noqa: F403
from streamkit.expressions.numbers.mathematics import *  # noqa: F403
from streamkit.expressions.numbers.number_formats import *  # noqa: F403
from streamkit.expressions.numbers.rounding import *  # noqa: F403
from streamkit.expressions.texts.encodings import *  # noqa: F403
from streamkit.expressions.texts.hashes import *  # noqa: F403
from streamkit.expressions.texts.regular_expressions import *  # noqa: F403
from streamkit.expressions.texts.strings import *  # noqa: F403
from streamkit.expressions.texts.substrings import *  # noqa: F403
from streamkit.expressions.texts.urls import *  # noqa: F403
from streamkit.expressions.times.dates import *  # noqa: F403
from streamkit.expressions.times.formatted_times import *  # noqa: F403
from streamkit.expressions.times.intervals import *  # noqa: F403
from streamkit.expressions.times.times import *  # noqa: F403
from streamkit.expressions.times.zoned_times import *  # noqa: F403
