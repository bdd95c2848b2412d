"""How a length of time is written, in English and Chinese."""

from __future__ import annotations

MS_PER_SECOND = 1_000
MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000
MS_PER_DAY = 86_400_000


def spoken(milliseconds: int, *, chinese: bool) -> str:
    """`12 s`, `1 min 30 s`, `2 h` — or `12 秒`, `1 分 30 秒`. Under a second counts as 0 s."""
    seconds = max(0, milliseconds) // MS_PER_SECOND
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    names = ("小时", "分钟" if not seconds else "分", "秒") if chinese else ("h", "min", "s")
    parts = [
        f"{amount} {name}" for amount, name in zip((hours, minutes, seconds), names, strict=True) if amount
    ]
    return " ".join(parts) or f"0 {names[2]}"
