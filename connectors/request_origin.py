"""Whether a request came from a web page of elsewhere: such a page can reach loopback by the user's browser, under a name of its own."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def is_from_elsewhere(headers: Headers, hosts: Collection[str], *, has_pages: bool = False) -> bool:
    """
    Whether the `Host` is neither an address, nor localhost, nor one of `hosts`, or the `Origin` is a page.

    A server that `has_pages` takes those that it gave itself.
    """
    name = headers.get("Host", "")
    try:
        host = urlsplit(f"//{name}").hostname or ""
    except ValueError:
        return True
    origin = headers.get("Origin")
    is_own = origin is None or (has_pages and origin in (f"http://{name}", f"https://{name}"))
    return not is_own or not (host == "localhost" or host in hosts or is_address(host))


def is_address(host: str) -> bool:
    """Whether a host is an address and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
