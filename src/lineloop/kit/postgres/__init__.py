"""The database of several machines: PostgreSQL, with lanes of writers, group commit and snapshot reads.

Nothing here is imported by a program that keeps its data in SQLite.
"""
