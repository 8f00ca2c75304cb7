"""Settings and the file that describes them."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from streamkit.config import Settings, load_settings, local_dir_here
from streamkit.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONF = Path(__file__).parents[2] / "conf" / "streamkit.toml"
SETTING = re.compile(r"^# (\w+ = .+)$", re.MULTILINE)


def test_file_lists_every_setting_with_its_default():
    """conf/streamkit.toml names exactly the settings there are, each with its default, commented out."""
    listed = tomllib.loads("\n".join(SETTING.findall(CONF.read_text(encoding="utf-8"))))

    assert listed == asdict(Settings())
    assert list(listed) == list(asdict(Settings()))


def test_every_setting_is_explained():
    """Above each setting stands a sentence that says what it does."""
    paragraphs = CONF.read_text(encoding="utf-8").split("\n\n")[1:]

    assert [paragraph for paragraph in paragraphs if not re.match(r"# [A-Z].*\n(# .*\n)*# \w+ = ", paragraph)] == []


def test_file_as_shipped_changes_nothing():
    """The shipped file, all of it commented, leaves every default in force."""
    assert load_settings(CONF, {}) == Settings()


def test_environment_is_stronger_than_file(tmp_path):
    """A variable of the environment wins over the file, and the file over the defaults."""
    file = tmp_path / "streamkit.toml"
    file.write_text('log = "/data/log"\nkey_groups = 64\n')

    settings = load_settings(environment={"STREAMKIT_CONF": str(file), "STREAMKIT_KEY_GROUPS": "32"})

    assert settings == Settings(log="/data/log", key_groups=32)


def test_conf_of_the_working_folder_is_read(tmp_path, monkeypatch):
    """Without a path, conf/streamkit.toml of the working folder counts if it is there."""
    monkeypatch.chdir(tmp_path)
    assert load_settings(environment={}) == Settings()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "streamkit.toml").write_text("frame_rows = 100\n")

    assert load_settings(environment={}).frame_rows == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key_group = 3", "unknown setting 'key_group'; known are log,"),
        ("key_groups = 0", "key_groups is 0; expected at least 1"),
        ("store_memory_bytes = 0", "store_memory_bytes is 0; expected at least 1"),
        ("store_memory_bytes = -1", "store_memory_bytes is -1; expected at least 1"),
        ("key_groups = 65536", "key_groups is 65536; expected 1 to 65,535"),
        ("key_groups = true", "key_groups is True; expected a whole number"),
        ('key_groups = "many"', "key_groups is 'many'; expected a whole number"),
        ("log = 3", "log is 3; expected a text"),
        ("log = ", "is not TOML"),
    ],
)
def test_bad_file_is_refused(tmp_path, text, message):
    """An unknown setting, a wrong type, a number out of range and broken TOML are each refused by name."""
    file = tmp_path / "streamkit.toml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=re.escape(message)):
        load_settings(file, {})


def test_bad_environment_is_refused():
    """A variable that is no number where one is needed is refused by its own name."""
    with pytest.raises(ConfigError, match="STREAMKIT_KEY_GROUPS is 'x'; expected a whole number"):
        load_settings(environment={"STREAMKIT_KEY_GROUPS": "x"})


def test_missing_file_is_refused(tmp_path):
    """A settings file that was asked for must be there."""
    with pytest.raises(ConfigError, match="there is no settings file"):
        load_settings(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    ("chosen", "environment", "found"),
    [("", {}, ""), ("/a", {}, "/a"), ("/a", {"STREAMKIT_LOCAL_DIR": "/b"}, "/b"), ("", {"STREAMKIT_LOCAL_DIR": "/b"}, "")],
)
def test_a_host_may_have_its_local_folder_elsewhere(chosen, environment, found):
    """The driver says whether tasks keep stores apart from the log, and the environment of a host may say where it does."""
    assert local_dir_here(chosen, environment) == found
