"""The beginning of the program `streamkit`."""

from __future__ import annotations

from streamkit.cli.loading import ended_by_an_interrupt


def main() -> None:
    """Load the command line and run it; an interrupt while it loads ends the program with 130 and without a traceback."""
    with ended_by_an_interrupt():
        from streamkit.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
