"""`python -m lineloop.cli`, the same as `lineloop`."""

from lineloop.cli import main

main()
