"""The toolbox without domain words: clock, ids, database, tasks, limits, faults.

Everything here could serve another product unchanged. It decides nothing about conversations or devices, and
it imports no other part of Lineloop.
"""
