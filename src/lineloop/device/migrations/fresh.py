"""The newest schema for a new SQLite file, in one go; the same as all revisions one after the other."""

from __future__ import annotations

from lineloop.device.migrations.fifth_ddl import fifth_statements
from lineloop.device.migrations.first_ddl import first_statements
from lineloop.device.migrations.fourth_ddl import fourth_statements
from lineloop.device.migrations.second_ddl import second_statements
from lineloop.device.migrations.sixth_ddl import sixth_statements
from lineloop.device.migrations.third_ddl import third_statements


def fresh_statements() -> list[str]:
    """Creates every table and index of HEAD."""
    steps = (second_statements, third_statements, fourth_statements, fifth_statements, sixth_statements)
    return [*first_statements(sqlite=True), *(one for step in steps for one in step())]
