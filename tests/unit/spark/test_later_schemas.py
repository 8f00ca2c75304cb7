"""A topic gets other schemas of Avro while an application on Spark reads it: the driver tells its tasks, which never open the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.launch.run import run
from streamkit.log.opening import open_log
from tests.unit.engine.test_later_schemas import by_time, counted, plain, rows_while_the_schema_changes, stored

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("declare", [plain, by_time, stored, counted])
def test_no_record_is_left_out(declare, spark, tmp_path):
    """Tasks are processes of their own, and know the schemas by the plan alone."""
    with open_log(tmp_path / "log") as log:
        log.settings = replace(log.settings, local_epoch_records=0)
        found = rows_while_the_schema_changes(declare, f"spark_{declare.__name__}", log, lambda app: run(app, spark, log))
    assert found == [(1, "a"), (2, "b"), (3, "b" if declare is counted else None)]
