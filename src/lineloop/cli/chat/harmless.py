"""Foreign text on its way to a terminal: what is not shown but changes what is shown is taken out."""

from __future__ import annotations

import re

# Control characters but line feed and tab, line separators, marks of reading direction, halves of characters.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def clean(text: str) -> str:
    """What others say cannot move the cursor, change colours, or turn the direction of what stands beside
    it.
    """
    return _UNSAFE.sub("", text)
