"""Print ALTER as canonical SQL."""

from __future__ import annotations

from sinkql import ast
from sinkql.printer import clause, dml
from sinkql.printer.create import reference


def alter(statement: ast.Alter) -> str:
    """Return the statement's text, without a semicolon."""
    head = clause.line("ALTER", statement.kind, statement.if_exists and "IF EXISTS", clause.name(statement.name))
    match statement.action:
        case (
            ast.Rename()
            | ast.SetOwner()
            | ast.Swap()
            | ast.SetCluster()
            | ast.Skip()
            | ast.RefreshReferences()
            | ast.Publish()
        ):
            return f"{head} {_action(statement.action)}"
        case action:
            return clause.clauses(head, _action(action))


def _action(action: ast.AlterAction) -> str:
    match action:
        case ast.Rename(to=to):
            return f"RENAME TO {clause.ident(to)}"
        case ast.Swap(other=other):
            return f"SWAP WITH {clause.ident(other)}"
        case ast.SetOwner(role=role):
            return f"OWNER TO {clause.ident(role)}"
        case ast.SetOptions(options=options, wait=wait):
            return clause.line("SET", clause.options(options), wait and f"WITH ({_wait(wait)})")
        case ast.ResetOptions():
            return _reset(action)
        case ast.SetCluster(cluster=cluster):
            return f"SET CLUSTER {clause.ident(cluster)}"
        case ast.SetFrom(relation=relation):
            return f"SET FROM {clause.name(relation)}"
        case ast.Publish():
            return "PUBLISH"
        case ast.SetSecret(value=value):
            return f"AS {clause.secret(value)}"
        case ast.ChangeConnection():
            return _changes(action)
        case ast.AddReferences(references=references, with_options=options):
            added = ", ".join(reference(each) for each in references)
            return clause.line("ADD TABLE", added, clause.with_clause(options))
        case ast.DropReferences(names=names, if_exists=if_exists, cascade=cascade):
            dropped = ", ".join(clause.name(each) for each in names)
            return clause.line("DROP TABLE", if_exists and "IF EXISTS", dropped, cascade and "CASCADE")
        case ast.RefreshReferences():
            return "REFRESH REFERENCES"
        case ast.Skip():
            return "SKIP"
        case ast.AddColumn(column=column, if_not_exists=if_not_exists):
            return clause.line("ADD COLUMN", if_not_exists and "IF NOT EXISTS", dml.column(column))
        case ast.ApplyReplacement(name=name):
            return f"APPLY REPLACEMENT {clause.name(name)}"


def _wait(wait: tuple[ast.Option, ...]) -> str:
    first, *more = wait
    if first.name == "WAIT FOR":
        assert first.value is not None
        return f"WAIT FOR {clause.value(first.value)}"
    return f"WAIT UNTIL READY {clause.options(tuple(more))}"


def _reset(action: ast.ResetOptions) -> str:
    return f"RESET ({', '.join(name.name for name in action.names)})"


def _changes(action: ast.ChangeConnection) -> str:
    changes = ",\n  ".join(_change(each) for each in action.actions)
    validate = action.validate
    return clause.clauses(changes, validate is not None and f"WITH (VALIDATE = {str(validate).upper()})")


def _change(action: ast.SetOptions | ast.ResetOptions | ast.RotateKeys) -> str:
    match action:
        case ast.SetOptions(options=options):
            return f"SET {clause.options(options)}"
        case ast.ResetOptions():
            return _reset(action)
        case ast.RotateKeys():
            return "ROTATE KEYS"
