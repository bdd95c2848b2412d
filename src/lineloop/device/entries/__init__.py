"""The three ways into the Runtime. No entry builds another's request (design: runtime 3.1)."""
