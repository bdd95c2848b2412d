"""The database of one machine: a SQLite file with one writer, group commit and snapshot reads."""
