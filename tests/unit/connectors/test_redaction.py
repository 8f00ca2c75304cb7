"""Secrets in texts: no library, whatever it does to one, shows a part of it; other words are shown."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, quote_plus, urlsplit

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.classes import class_of, known_classes
from streamkit.connectors.http import HttpSink
from streamkit.connectors.postgres import PostgresSink, PostgresSource
from streamkit.connectors.redaction import HIDDEN, Redaction
from streamkit.connectors.runtime import worker
from streamkit.connectors.runtime.configurations import read_configurations
from streamkit.connectors.runtime.status import read_status
from streamkit.connectors.setting import secrets_of
from streamkit.errors import ConfigError
from tests.kit.sampling import TAKES_ALL

LETTERS = string.ascii_letters + string.digits
FORMS: Mapping[str, Callable[[str], str]] = {
    "as it is": str,
    "Python": repr,
    "bytes": lambda one: repr(one.encode()),
    "JSON": json.dumps,
    "JSON with letters": lambda one: json.dumps(one, ensure_ascii=False),
    "address": lambda one: quote(one, safe=""),
    "lower case": lambda one: quote(one, safe="").lower(),
    "form": quote_plus,
    "base64": lambda one: base64.b64encode(one.encode()).decode(),
    "one line": lambda one: " ".join(one.split()),
    "cut": lambda one: one[: 2 * len(one) // 3],
    "end": lambda one: one[len(one) // 3 :],
    "host": lambda one: urlsplit(f"http://u:{one.replace('[', '').replace(']', '')}@h").hostname or "",
}


@pytest.mark.parametrize("form", list(FORMS))
def test_a_secret_in_any_form(form):
    """Random secrets with the characters that libraries cut and escape at: no six characters of one are left."""
    choose = random.Random(form)
    for _ in range(100 if TAKES_ALL else 30):
        words = ["".join(choose.choices(LETTERS, k=choose.randint(8, 14))) for _ in range(3)]
        secret = choose.choice("/@:%?#\n \"'\\é+&=").join(words)
        said = Redaction([secret])(f"cannot use <{FORMS[form](secret)}> here")
        assert said.startswith("cannot use ") and said.endswith(" here")
        left = said.lower()
        assert not any(word[at : at + 6].lower() in left for word in words for at in range(len(word) - 5)), (secret, said)


def test_short_parts_within_quotation_marks():
    """A library names a port or a host of three letters; elsewhere such letters may be anything."""
    redaction = Redaction(["ab/xyz"])
    assert redaction("port \"ab\" and host 'xyz', abstract") == f"port \"{HIDDEN}\" and host '{HIDDEN}', abstract"


@pytest.mark.parametrize("tail", ["a", "abc", "ab@c", "b/c", "xy:z", "a b", "é"])
def test_a_password_with_an_at(tail):
    """A library takes what stands behind the first @ for the host: nothing of the password is left in front of the last one."""
    for known in (f"S3cretpw@{tail}", f"S3cretpw/{tail}"):
        secrets = secrets_of(PostgresSource.SETTINGS, {"connection.url": f"postgresql://u:{known}@host.example/db"})
        said = Redaction(secrets)(f"failed to resolve host '{tail}@host.example': no; {tail}@host.example:5432, user=u")
        assert said.count("@host.example") == 2 and tail.rpartition("@")[2] + "@" not in said.replace("*@", ""), said
        assert "failed to resolve host" in said and said.endswith(", user=u")


def test_an_address_that_is_refused():
    """What is said of it has no part of a password that should have been escaped."""
    for password in ("S3cretpw/a", "S3cretpw@xy:z", "S3cretpw@a b"):
        with pytest.raises(ConfigError) as error:
            PostgresSource("in", {"connection.url": f"postgresql://u:{password}@host.example/db", "tables": "t"})
        assert not re.search("S3cretpw|xy|host.example", str(error.value)), error.value


def test_parts_that_are_no_words():
    """A driver quotes what it takes for a database, the system names a folder, of what should have been escaped."""
    redaction = Redaction(["p@ss/w:o#r d?%41"])
    said = redaction("unexpected spaces found in \"w:o#r d\", use %20; [Errno 2] No such file: '/proc/p@ss', first; it passed")
    assert said == f"unexpected spaces found in \"{HIDDEN}\", use %20; [Errno 2] No such file: '/proc/{HIDDEN}', first; it passed"


@pytest.mark.parametrize("secret", ["p", "ab", "9", "xyz"])
def test_a_secret_of_a_few_letters(secret):
    """It is hidden where it stands alone; no message loses its words for it."""
    redaction = Redaction([secret])
    words = "TopicNotFoundError: topic 'tp' does not exist; there are 99 abxyz ports, password wrong"
    assert redaction(words) == words
    for text in ("{}", "host '{}'", 'port "{}"', "connect with password={} now", "http://u:{}@h/"):
        assert redaction(text.format(secret)) == text.format(HIDDEN)


def test_what_is_no_secret_is_shown():
    """The words around a token, and folders of a file with a key."""
    redaction = Redaction(["Bearer hunter2hunter2", "/etc/keys/client.pem"])
    assert redaction("a Bearer token for the client, keys of it") == "a Bearer token for the client, keys of it"


S = "zq9SECRETzq9"
URLS = [
    f"{S}/x@127.0.0.1:1",
    f"{S}%zz@127.0.0.1:1",
    f"[{S}@127.0.0.1:1",
    f"a#{S}/b@127.0.0.1:1",
    f"{S}@127.0.0.1:abc",
    f"x?{S}@127.0.0.1:1",
]


def connectors():
    for url in URLS:
        yield PostgresSink, {"connection.url": f"postgresql://bob:{url}/x", "topics": "t"}
        yield PostgresSource, {"connection.url": f"postgresql://bob:{url}/x", "tables": "t"}
    yield PostgresSink, {"connection.url": "${env:WRITTEN_ELSEWHERE}", "topics": "t"}
    yield PostgresSource, {"connection.url": "${env:WRITTEN_ELSEWHERE}", "tables": "t"}
    sink = {"topics": "t", "url": "http://127.0.0.1:9/x", "retry.timeout.ms": "0"}
    for end in ("\n", "\r\n", "é\n", "\0"):
        yield HttpSink, {**sink, "headers.Authorization": f"Bearer {S}{end}"}
        yield HttpSink, {**sink, "url": f"http://127.0.0.1:9/x?token={S}{end}"}


def said_of(kind, config, folder):
    """What a run says that cannot succeed: its error, those behind it, and the status."""
    with sk.open_log(folder) as log:
        log.create_topic("t", "id int", key="id")
        with log.producer() as producer:
            producer.send("t", {"id": 1})
        with pytest.raises(Exception) as raised:
            run([kind("c", config)], log, once=True)
        said = [json.dumps([one.to_json() for one in read_status(log)], ensure_ascii=False)]
    error: BaseException | None = raised.value
    while error is not None:
        said.append(repr(error))
        error = error.__cause__ or error.__context__
    return said


def test_secrets_that_a_library_does_not_like(tmp_path, monkeypatch, caplog):
    """What drivers say of an address or a header: nowhere in the errors, the status and the log lines. All at once, as each tries again."""
    monkeypatch.setenv("WRITTEN_ELSEWHERE", f"postgresql://bob:{S}/x@127.0.0.1:1/x")
    cases = list(connectors())
    with ThreadPoolExecutor(len(cases)) as threads:
        runs = [threads.submit(said_of, kind, config, tmp_path / str(number)) for number, (kind, config) in enumerate(cases)]
    for case, one in zip(cases, runs, strict=True):
        texts = one.result()
        assert any("Error" in text for text in texts), case
        assert not [text for text in (*texts, caplog.text) if S[:8].lower() in text.lower() or S[-8:].lower() in text.lower()], (
            case
        )


def some_secret(choose):
    """A secret with characters that end it for a library, or without."""
    words = ["".join(choose.choices(LETTERS, k=choose.randint(5, 9))) for _ in range(choose.choice((1, 2, 3)))]
    return choose.choice("/@:%?#\n \"'\\é+&=;$").join(words)


def settings_of(kind):
    """Every setting of a connector, by a name that it takes; not those that others read in clear, such as the names of topics."""
    for setting in kind.declared():
        yield setting.name + "user" * setting.is_prefix


def needed_of(kind, folder):
    """A configuration that comes as far as the foreign system, of which there is none."""
    url = "postgresql://u@127.0.0.1:1/x" if "Postgres" in kind.__name__ else "http://127.0.0.1:1/x"
    known = {
        "topic": "t", "topics": "t", "tables": "t", "table": "t", "path": str(folder / "in"), "format": "json", "connection.url": url, "url": url,
        "retry.timeout.ms": "0", "bootstrap.servers": "127.0.0.1:1", "kafka.topic": "t", "port": "0", "schema": "id int", "topics.": "t",
    }  # fmt: skip
    return {one.name: known[one.name] for one in kind.declared() if one.name in known}


def places_of(kind, folder, choose):
    """Configurations with a secret in one setting: alone, and within what the setting has else."""
    base = needed_of(kind, folder)
    for name in settings_of(kind):
        for within in ("{}", "/proc/{}/x", "postgresql://u:{}@127.0.0.1:1/x", "http://u:{}@127.0.0.1:1/x?token={}"):
            if within == "{}" or ("url" in name and "://" in within) or ("path" in name and "/proc" in within):
                yield {**base, name: within}, some_secret(choose)


@pytest.mark.parametrize("name", known_classes())
def test_every_setting_given_as_a_secret(name, tmp_path, monkeypatch, caplog, capfd):
    """Wherever it is put, and kept elsewhere: no four characters of its words are in errors, log lines, the status and the list."""
    kind = class_of(name)
    choose = random.Random(None if TAKES_ALL else name)
    monkeypatch.setattr(worker, "ONCE_TRIES", 1)
    monkeypatch.chdir(tmp_path)  # a secret may be a folder that a connector makes
    (tmp_path / "in").mkdir()
    places = list(places_of(kind, tmp_path, choose))
    for number, (config, secret) in enumerate(places if TAKES_ALL else choose.sample(places, 5)):
        monkeypatch.setenv("SECRET", secret)
        written = {key: value.replace("{}", "${env:SECRET}") for key, value in config.items()}
        said = attempted(kind, written, tmp_path / str(number))
        out = capfd.readouterr()
        for text in (*said, caplog.text, out.out, out.err):
            for part in re.findall(r"[A-Za-z0-9]{5,}", secret):
                assert not [at for at in range(len(part) - 4) if part[at : at + 5].lower() in text.lower()], (
                    written,
                    secret,
                    text,
                )
        caplog.clear()


def attempted(kind, config, folder):
    """What is said when a connector is made, is run once, and is asked for."""
    said = []
    with sk.open_log(folder) as log:
        log.create_topic("t", "id int", key="id")
        with log.producer() as producer:
            producer.send("t", {"id": 1})
        try:
            source = kind("c", config)
            source.settings["errors.retry.timeout"] = 0
            if "bootstrap.servers" not in source.settings:  # else it waits for a broker that there is not
                run([source], log, once=True)
        except BaseException as error:
            behind: BaseException | None = error
            while behind is not None:
                said.append(f"{behind!r} {behind}")
                behind = behind.__cause__ or behind.__context__
        said.append(json.dumps([one.to_json() for one in read_status(log)], ensure_ascii=False))
        said.append(json.dumps(read_configurations(log), ensure_ascii=False))
    return said
