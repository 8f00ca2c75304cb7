"""
Table grouping: what each department pays now, while people move between departments, and come and go.

    streamkit topics create employees --key employee --schema "employee string, department string, salary bigint"
    python topologies/table_grouping.py
    streamkit consume payroll --follow
"""

from __future__ import annotations

from typing import Any

import streamkit as sk


def hire(payroll: dict[str, Any], person: dict[str, Any]) -> dict[str, Any]:
    return {"people": payroll["people"] + 1, "salaries": payroll["salaries"] + person["salary"]}


def dismiss(payroll: dict[str, Any], person: dict[str, Any]) -> dict[str, Any] | None:
    """Take a person away again, as they were; with the last one the department goes."""
    people = payroll["people"] - 1
    return {"people": people, "salaries": payroll["salaries"] - person["salary"]} if people else None


app = sk.Topology("table-grouping")
employees = app.table("employees", schema="employee string, department string, salary bigint", key="employee")

payroll = employees.group_by("department").aggregate(
    {"people": 0, "salaries": 0}, hire, dismiss, "people int, salaries bigint", store="payroll"
)
payroll.to("payroll")

if __name__ == "__main__":
    sk.main(app)
