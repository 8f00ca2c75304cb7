"""The site: its pages are gathered in build/pages, and built into build/site without the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from scripts.site.notebook_page import notebook_page
from scripts.site.pages import ROOT, moved, place_of, sources

BUILD = ROOT / "build"


def gather(folder: Path) -> None:
    """Write all pages of the site into a folder, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in sources():
        place = place_of(source)
        assert place is not None
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in {".md", ".ipynb"}:
            target.write_text(moved(source, _text(ROOT / source)), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / source, target)


def _text(file: Path) -> str:
    return notebook_page(file, ROOT) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")


def build(folder: Path = BUILD) -> int:
    """Build the site into the folder's `site`, from its `pages`; 0 if all its links lead somewhere."""
    gather(folder / "pages")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    here = {
        "docs_dir: build/pages": "docs_dir: pages",
        "site_dir: build/site": "site_dir: site",
        "paths: [.]": f"paths: [{ROOT}]",
    }
    for named, meant in here.items():
        assert named in settings
        settings = settings.replace(named, meant)
    file = folder / "mkdocs.yml"
    file.write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(file)]
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(build())
