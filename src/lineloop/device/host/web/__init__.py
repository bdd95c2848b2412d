"""The host of the browser: the shell's pages, the surfaces in them, and the two listeners that serve both."""
