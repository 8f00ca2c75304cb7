"""Secrets in texts: no library, whatever it does to one, shows a part of it; other words are shown."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, quote_plus, urlsplit

import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.http import HttpSink
from streamkit.connectors.postgres import PostgresSink, PostgresSource
from streamkit.connectors.redaction import HIDDEN, Redaction
from streamkit.connectors.runtime.status import read_status

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
    for _ in range(100):
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
        assert "Error" in texts[0], case
        assert not [text for text in (*texts, caplog.text) if S[:8].lower() in text.lower() or S[-8:].lower() in text.lower()], (
            case
        )
