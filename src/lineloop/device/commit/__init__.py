"""The one place where decisions become facts: load by key, decide, write, in one transaction each."""
