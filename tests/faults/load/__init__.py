"""Many writers, streams, viewers, operators and questions on real servers that are killed at random.

    python -m tests.faults.load --seconds 1800 --seed 7

`servers` starts and harms, `calls` speaks to whichever server answers and records each attempt, `actors` are
the people and programs, `run` puts them together, lets everything heal, reads the server and asks the judge
(lineloop.testing.history).
"""
