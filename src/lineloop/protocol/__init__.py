"""What everybody agrees on: the shapes, rules and tables of spec/protocol.md.

Pure: no I/O, no clock, no randomness, no logging. Decides what is well-formed and which step is legal; leaves
to others what is done about it.
"""
