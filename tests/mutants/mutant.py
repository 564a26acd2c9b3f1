"""Mutants of SinkQL: a module with one part of its text replaced, and the tests that must fail.

A family is a file of this folder. A line `== module` begins a module. Below it, lines with `-` are a text that the
module has once, lines with `+` replace it, and each line with `by` names a test as pytest does, relative to the tests'
folder. `let name = …[]` declares a short name for a test, which is followed by its parameters.

`cd tests; python -m mutants.mutant planner rank` runs the mutants of these families, and prints what kills each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sinkql

_ROOT, _HERE = Path(sinkql.__file__).parent, Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """A module, a text that it has once, its replacement, and the tests that must fail."""

    module: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.module}: {self.right!r} → {self.wrong!r}"

    def text(self) -> str:
        """Return the module's text with the replacement."""
        text = _ROOT.joinpath(*self.module.split(".")).with_suffix(".py").read_text()
        assert text.count(self.right) == 1, f"it is there {text.count(self.right)} times: {self}"
        return text.replace(self.right, self.wrong)


@dataclass(frozen=True)
class Fate:
    """The outcome of a mutant: `killed`, `survived` or `broken`, and the error of a test."""

    mutant: Mutant
    kind: str
    said: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} in {self.seconds:.1f} s: {self.mutant}\n  {self.said}"


def families() -> dict[str, list[Mutant]]:
    """Return all mutants by family."""
    return {path.stem: _read(path.read_text()) for path in sorted(_HERE.glob("*.txt"))}


def _read(text: str) -> list[Mutant]:
    names: dict[str, str] = {}
    found, module = [], ""
    for block in text.split("\n\n"):
        parts: dict[str, list[str]] = {"-": [], "+": [], "by": []}
        for line in block.splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "#":
                    continue
                case "let":
                    name, _, test = rest.partition(" = ")
                    names[name] = test
                case "==":
                    module = rest
                case _:
                    parts[word].append(rest)
        if parts["by"]:
            tests = tuple(_test(each, names) for each in parts["by"])
            found.append(Mutant(module, "\n".join(parts["-"]), "\n".join(parts["+"]), tests))
    return found


def _test(written: str, names: dict[str, str]) -> str:
    name, _, parameters = written.partition(" ")
    return names[name].replace("[]", f"[{parameters}]") if name in names else written


def fates(mutants: Sequence[Mutant]) -> Iterator[Fate]:
    """Run the tests of each mutant in a separate process."""
    lines = [
        json.dumps({"module": f"sinkql.{each.module}", "text": each.text(), "tests": each.tests}) for each in mutants
    ]
    command = [sys.executable, "-m", "mutants.child"]
    with subprocess.Popen(command, cwd=_HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for mutant, line in zip(mutants, lines, strict=True):
            child.stdin.write(line + "\n")
            child.stdin.flush()
            yield Fate(mutant, *json.loads(child.stdout.readline()))
        child.stdin.close()


def met_by(test: str) -> list[str]:
    """Return the parameters with which mutants name a test, without duplicates."""
    tests = {each for mutants in families().values() for mutant in mutants for each in mutant.tests}
    return sorted(each[len(test) + 1 : -1] for each in tests if each.startswith(f"{test}["))


def main(names: Sequence[str]) -> None:
    known = families()
    for name in names or known:
        for fate in fates(known[name]):
            print(fate, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
