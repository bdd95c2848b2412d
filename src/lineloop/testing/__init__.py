"""What tests of Lineloop, and of what is built on it, may use."""

from lineloop.testing.clock import FakeClock
from lineloop.testing.waiting import until

__all__ = ["FakeClock", "until"]
