"""Transform the tree of ALTER."""

from __future__ import annotations

from dataclasses import replace

from sinkql import ast
from sinkql.parser.read import tree
from sinkql.parser.read.tree import Node, child, children, ident, only, span, the_name, the_token
from sinkql.parser.transform import value
from sinkql.parser.transform.create import reference
from sinkql.parser.transform.dml import column

_HEAD = ("if_exists", "name")


def alter(node: Node) -> ast.Alter:
    """Return the statement of an `alter_<kind>` node."""
    action = next(each for each in node.children if isinstance(each, Node) and each.data not in _HEAD)
    return ast.Alter(
        kind=str(node.data).removeprefix("alter_").replace("_", " ").upper(),
        name=the_name(node),
        action=_action(action),
        if_exists=child(node, "if_exists") is not None,
        span=span(node),
    )


def _action(node: Node) -> ast.AlterAction:
    place = span(node)
    match node.data:
        case "rename":
            return ast.Rename(_name(node), place)
        case "swap":
            return ast.Swap(_name(node), place)
        case "owner":
            return ast.SetOwner(_name(node), place)
        case "set_options":
            return _set(node)
        case "reset_options":
            return _reset(node)
        case "set_cluster":
            return ast.SetCluster(_name(node), place)
        case "set_from":
            return ast.SetFrom(the_name(node), place)
        case "publish":
            return ast.Publish(place)
        case "set_secret":
            return ast.SetSecret(value.secret_value(node), place)
        case "change_connection":
            return _changed(node)
        case "add_references":
            references = tuple(reference(each) for each in children(node, "added"))
            return ast.AddReferences(references, value.with_options(node), place)
        case "drop_references":
            return ast.DropReferences(tree.names(node), child(node, "if_exists") is not None, tree.cascade(node), place)
        case "refresh_references":
            return ast.RefreshReferences(place)
        case "skip":
            return ast.Skip(place)
        case "add_column":
            added = column(children(node, "table_column")[0])
            return ast.AddColumn(added, child(node, "if_not_exists") is not None, place)
        case "apply_replacement":
            return ast.ApplyReplacement(the_name(node), place)
    raise AssertionError(node.data)


def _name(node: Node) -> ast.Ident:
    return ident(the_token(node, "NAME"))


def _set(node: Node) -> ast.SetOptions:
    return ast.SetOptions(value.any_options(node), _wait(child(node, "wait")), span(node))


def _wait(node: Node | None) -> tuple[ast.Option, ...]:
    if node is None:
        return ()
    until = only(node)
    if until.data == "wait_until_ready":
        place = span(until)
        return (ast.Option("WAIT UNTIL READY", None, place, place), *value.any_options(until))
    return (ast.Option("WAIT FOR", value.value(only(until)), span(until), span(until)),)


def _reset(node: Node) -> ast.ResetOptions:
    names = tree.tokens(children(node, "option_names")[0], "OPTION_NAME")
    return ast.ResetOptions(tuple(ast.OptionName(str(name), span(name)) for name in names), span(node))


def _changed(node: Node) -> ast.ChangeConnection:
    actions: list[ast.SetOptions | ast.ResetOptions | ast.RotateKeys] = []
    for each in children(node, "set_options", "reset_options", "rotate_keys"):
        match each.data:
            case "set_options":
                given = _set(each)
                actions.append(replace(given, options=value.connection_options(given.options)))
            case "reset_options":
                taken = _reset(each)
                names = tuple(replace(name, name=value.connection_option(name.name)) for name in taken.names)
                actions.append(replace(taken, names=names))
            case _:
                actions.append(ast.RotateKeys(span(each)))
    return ast.ChangeConnection(tuple(actions), value.validate(value.with_options(node)), span(node))
