"""Promises of names: which can be used, and what is said of the others."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.errors import ConfigError
from streamkit.names import NAME_LENGTH_MAX, check_name, local_root

ALLOWED = string.ascii_letters + string.digits + "._-"


@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        ("a/b", r"'a/b' cannot be used: its character 2 is U\+002F SOLIDUS"),
        ("..\\x", r"its character 3 is U\+005C REVERSE SOLIDUS"),
        ("a\x00", r"'a\\x00' cannot be used: its character 2 is U\+0000 control character"),
        ("line\n", r"its character 5 is U\+000A control character"),
        ("р", r"'\\u0440' cannot be used: its character 1 is U\+0440 CYRILLIC SMALL LETTER ER"),
        ("１", r"its character 1 is U\+FF11 FULLWIDTH DIGIT ONE"),
        ("a b", r"its character 2 is U\+0020 SPACE"),
        ("\ud800", r"its character 1 is U\+D800 half of a character"),
        ("a\udcff", r"its character 2 is U\+DCFF half of a character"),
        ("\ue000", r"its character 1 is U\+E000 private character"),
        ("\u0378", r"its character 1 is U\+0378 unassigned character"),
        ("a" * 300, "it has 300 characters; expected 1 to 249"),
        ("é" * 150, r"its character 1 is U\+00E9 LATIN SMALL LETTER E WITH ACUTE"),
        ("", "it has 0 characters"),
        (".", "stands for a folder"),
        ("..", "stands for a folder"),
        (5, "it is a int"),
        (None, "it is a NoneType"),
        (b"t", "it is a bytes"),
    ],
)
def test_the_flaw_of_a_name_is_named(name, flaw):
    """A name that cannot be used is answered with its first bad character, as what it is and not as what it looks like."""
    with pytest.raises(ConfigError, match=flaw):
        check_name(name, "topic")


@given(st.text())
@example("a" * NAME_LENGTH_MAX)
@example("a" * (NAME_LENGTH_MAX + 1))
def test_a_name_is_kafkas_or_refused(name):
    """Just what Kafka takes as a topic's name passes, unchanged; every refusal is plain ASCII, however odd the name."""
    is_sound = 0 < len(name) <= NAME_LENGTH_MAX and set(name) <= set(ALLOWED) and name not in (".", "..")
    if is_sound:
        assert check_name(name, "topic") == name
        return
    with pytest.raises(ConfigError) as refusal:
        check_name(name, "topic")
    assert str(refusal.value).isascii() and str(refusal.value).isprintable()


@given(st.text(ALLOWED, min_size=1, max_size=NAME_LENGTH_MAX).filter(lambda name: name not in (".", "..")))
def test_sound_names_pass(name):
    """Every name of the allowed characters is taken."""
    assert check_name(name, "topic") == name


def test_logs_have_folders_of_their_own_for_stores():
    """The folder of a host is one for each path of a log; without one it is the root."""
    assert local_root("/shared/log", "") == "/shared/log"
    found = [local_root(root, "/disk") for root in ("/shared/log", "/other/log", "/shared/log")]
    assert found[0] == found[2] != found[1]
    assert all(folder.startswith("/disk/log-") for folder in found)
    assert local_root("/shared/log", "disk").startswith("/")
