"""What docs/reference is made from is whole; tests/unit/test_prose.py tells whether its pages are as the code is now."""

from __future__ import annotations

import pytest

from scripts.site.reference import verbs
from scripts.site.reference.sentences import cell, first_sentence
from scripts.site.reference.write import made, write


def test_every_verb_has_an_example():
    """Each verb of each handle has an example, and there is none of a verb that is gone."""
    expected = {f"{handle}.{verb}" for handle, (cls, _) in verbs.HANDLES.items() for verb, _ in verbs.verbs_of(cls)}

    assert set(verbs.EXAMPLES) == expected


@pytest.mark.parametrize("name", [name for name in verbs.EXAMPLES if name not in verbs.DRAWN])
def test_an_example_compiles(name):
    """An example that has no picture, whose making would compile it, compiles, too."""
    assert verbs.topology_of(verbs.EXAMPLES[name]).sinks


def test_a_sentence_ends_where_it_does():
    """The first sentence of a docstring goes over lines, and ends at its own point, not at one of an abbreviation's dots."""

    def documented():
        """
        Give the rows of `a.b`, or
        of sk.tumbling(…). And more.

        Not this.
        """

    assert first_sentence(documented) == "Give the rows of `a.b`, or of sk.tumbling(…)."
    assert first_sentence(object()) in ("", first_sentence(object))
    assert cell("a | b\nc") == r"a \| b c"


def test_pictures_of_gone_verbs_go(tmp_path):
    """Who writes the pages again finds no picture of a verb that is gone."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "gone.svg").write_text("<svg/>")
    write(tmp_path)

    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {name.split("/")[1] for name in made() if "/" in name}
