"""Privileges of roles: which one each object needs, which a role lacks, and how `serve` gets its own (decision 47)."""

from __future__ import annotations

from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError
from dragoman.store.connection import Transaction
from dragoman.store.migrations.contents import CONTENTS_SCHEMA
from dragoman.store.postgres import SCHEMA, PostgresConnection

# What `serve` does with every table. It changes no table: months are added by a function of the owner's rights.
_PRIVILEGES = "SELECT, INSERT, UPDATE, DELETE"
# The tables of the gateway, and those of contents, which have the name of their schema in front.
_SCHEMAS = (SCHEMA, CONTENTS_SCHEMA)
_SCHEMA_ROWS = f"""
    (SELECT n.oid, n.nspname, n.nspowner, CASE WHEN n.nspname = '{SCHEMA}' THEN '' ELSE n.nspname || '.' END AS prefix
        FROM pg_namespace n WHERE n.nspname IN ({", ".join(f"'{schema}'" for schema in _SCHEMAS)})) AS s
"""
_MISSING = f"""
    SELECT privilege || ' on ' || name FROM (
        SELECT 'USAGE' AS privilege, 'schema ' || s.nspname AS name,
            has_schema_privilege(s.oid, 'USAGE') AS is_there FROM {_SCHEMA_ROWS}
        UNION ALL
        SELECT privilege, s.prefix || c.relname, has_table_privilege(c.oid, privilege)
            FROM {_SCHEMA_ROWS} JOIN pg_class c ON c.relnamespace = s.oid,
                unnest(string_to_array('{_PRIVILEGES}', ', ')) privilege
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND (c.relname <> 'schema_version' OR privilege = 'SELECT')
        UNION ALL
        SELECT 'EXECUTE', s.prefix || p.proname, has_function_privilege(p.oid, 'EXECUTE')
            FROM {_SCHEMA_ROWS} JOIN pg_proc p ON p.pronamespace = s.oid
    ) AS privileges WHERE NOT is_there ORDER BY 1
"""
_MAY_MIGRATE = f"""
    SELECT coalesce(bool_and(pg_has_role(s.nspowner, 'USAGE')), true)
        AND (count(*) = {len(_SCHEMAS)} OR has_database_privilege(current_database(), 'CREATE'))
        FROM {_SCHEMA_ROWS}
"""


def missing_privileges(db: PostgresConnection) -> list[str]:
    """The privileges that `serve` needs and the present role lacks."""
    return [row[0] for row in db.rows(_MISSING)]


def may_migrate(db: PostgresConnection) -> bool:
    """Whether the present role may make the tables, or change the ones that are there."""
    return db.row(_MAY_MIGRATE) == (True,)


def check_owner(db: PostgresConnection, database: PostgresDatabase) -> None:
    """Refuse a role that may not make or change the tables."""
    if not may_migrate(db):
        raise DragomanError(
            f"the role {role_of(db)} may not change the tables of {database}; nothing was changed: "
            "use the role that owns them, or GRANT CREATE ON DATABASE for new ones"
        )


def role_of(db: PostgresConnection) -> str:
    """The name of the present role."""
    return str(db.rows("SELECT current_user::text")[0][0])


def grant_to(db: PostgresConnection, role: str) -> None:
    """Give a role the privileges of `serve`, also for tables that the present role makes later."""
    if not db.number("SELECT count(*) FROM pg_roles WHERE rolname = ?", (role,)):
        raise DragomanError(f"there is no role {role}: create it with CREATE ROLE {role} LOGIN PASSWORD '…'")
    statements = (
        "GRANT USAGE ON SCHEMA {schema} TO %I",
        f"GRANT {_PRIVILEGES} ON ALL TABLES IN SCHEMA {{schema}} TO %I",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {{schema}} GRANT {_PRIVILEGES} ON TABLES TO %I",
    )
    with Transaction(db):
        for statement in (each.format(schema=schema) for schema in _SCHEMAS for each in statements):
            db.script(str(db.rows("SELECT format(?, CAST(? AS text))", (statement, role))[0][0]))
