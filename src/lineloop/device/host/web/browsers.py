"""What a browser is called, from what it says of itself: `Chrome · Linux`. Pure.

Decides the words only. It is no proof of anything: it helps a person to tell their own browsers apart.
"""

from __future__ import annotations

# Of those that name several, the first here is meant.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_named_in(user_agent: str) -> str:
    """`BROWSER · SYSTEM` of a User-Agent header, what is known of it; "" when nothing is."""
    found = (_first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent))
    return " · ".join(one for one in found if one)


def _first(known: tuple[tuple[str, str], ...], user_agent: str) -> str:
    return next((name for mark, name in known if mark in user_agent), "")
