"""The aggregates that there are: importing this enters them all, and gives the handles that users call."""

from __future__ import annotations

from streamkit.expressions.aggregates.approx_count_distinct import *  # noqa: F403
from streamkit.expressions.aggregates.average import *  # noqa: F403
from streamkit.expressions.aggregates.collection import *  # noqa: F403
from streamkit.expressions.aggregates.count import *  # noqa: F403
from streamkit.expressions.aggregates.extremes import *  # noqa: F403
from streamkit.expressions.aggregates.extremes_by import *  # noqa: F403
from streamkit.expressions.aggregates.first import *  # noqa: F403
from streamkit.expressions.aggregates.percentiles import *  # noqa: F403
from streamkit.expressions.aggregates.sum import *  # noqa: F403
from streamkit.expressions.aggregates.top_k import *  # noqa: F403
from streamkit.expressions.aggregates.variance import *  # noqa: F403
