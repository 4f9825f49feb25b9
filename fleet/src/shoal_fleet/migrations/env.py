"""Runs migrations on the connection and in the transaction of `schema.migrate`."""

from alembic import context
from shoal_fleet.schema import all_tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=all_tables(),
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
