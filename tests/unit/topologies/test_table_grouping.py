"""Table grouping: employees in, what each department pays out."""

from __future__ import annotations

from streamkit.testing import TopologyTestDriver
from topologies.table_grouping import app


def employ(driver, employee, department, salary):
    driver.advance_wall_clock("1 minute")
    driver.pipe("employees", {"employee": employee, "department": department, "salary": salary})


def play(driver):
    employ(driver, "ann", "sales", 100)
    employ(driver, "bob", "sales", 200)
    employ(driver, "eve", "press", 300)
    employ(driver, "ann", "press", 150)
    employ(driver, "bob", "sales", 220)
    driver.advance_wall_clock("1 minute")
    driver.delete("employees", {"employee": "eve"})


def payroll(driver):
    return {department: (row["people"], row["salaries"]) for department, row in driver.newest("payroll").items()}


def test_who_moves_is_taken_away_and_added():
    """A row that changes leaves its old group with its old salary and enters its new one; a row that is deleted leaves."""
    with TopologyTestDriver(app) as driver:
        play(driver)

        assert payroll(driver) == {"sales": (1, 220), "press": (1, 150)}
        assert driver.store("payroll").get("press") == {"department": "press", "people": 1, "salaries": 150}


def test_a_department_without_people_goes():
    """With its last row a group is deleted; the next one begins it again."""
    with TopologyTestDriver(app) as driver:
        play(driver)
        employ(driver, "bob", "press", 220)
        assert payroll(driver) == {"press": (2, 370)}

        employ(driver, "zoe", "sales", 90)
        assert payroll(driver) == {"press": (2, 370), "sales": (1, 90)}
