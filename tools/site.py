"""Build the documentation site in build/site from the Markdown pages.

    python tools/site.py [--output build/site] [--stage-only]

Pages also link to files outside docs, for example the README. So docs and the linked files, below `project/`, are
staged first, with adjusted links. MkDocs builds the staged pages in strict mode. Each page is also written as Markdown
beside its HTML, for programs; llms.txt lists the pages, and llms-full.txt contains all of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
_DOCS = ROOT / "docs"
_OUTSIDE = "project"
_FENCED = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`|<!--.*?-->)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_HTML = re.compile(r"((?:href|src|srcset)=\")([^\"#]+)")
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n+", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_SINGLE = re.compile(r"errors/SQ\d{4}\.md")


def main(arguments: list[str] | None = None) -> int:
    """Build the site; return the exit code of MkDocs."""
    parser = argparse.ArgumentParser(description="Build the site of the documentation.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--stage-only", action="store_true", help="write the input of MkDocs, and stop")
    given = parser.parse_args(arguments)
    output = given.output.resolve()
    stage = output.with_name(f"{output.name}-stage")
    shutil.rmtree(stage, ignore_errors=True)
    nav = write_stage(stage, output)
    if given.stage_only:
        return 0
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(stage / "mkdocs.yml")]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, env=variables, stderr=subprocess.PIPE, text=True)
    print(
        "".join(line for line in done.stderr.splitlines(True) if not line.startswith("INFO")), end="", file=sys.stderr
    )
    if done.returncode == 0:
        write_texts(stage / "docs", output, nav)
        print(
            f"{output}: {sum(1 for _ in output.rglob('*.html'))} pages. python -m http.server -d {output} shows them."
        )
    return done.returncode


# --- the stage ------------------------------------------------------------------------------------------------------


def write_stage(stage: Path, output: Path) -> list[tuple[str, list[str]]]:
    """Write the pages and the configuration of MkDocs; return the sections of the navigation with their pages."""
    pages = stage / "docs"
    shutil.copytree(_DOCS, pages, ignore=shutil.ignore_patterns("*.md", "*.d2"))
    waiting = [_source(page) for page in _nav_pages()]
    waiting += [path for path in _DOCS.rglob("*.md") if _is_single(path, _DOCS)]
    done: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in done or not path.exists():
            continue
        done.add(path)
        place = pages / staged(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, place)
            continue
        text, targets = rewritten(path.read_text("utf-8"), path)
        place.write_text(_with_tags(text), "utf-8")
        waiting += [target for target in targets if not target.is_relative_to(_DOCS)]
    outside = {str(staged(path)) for path in done if not path.is_relative_to(_DOCS) and path.suffix == ".md"}
    (stage / "mkdocs.yml").write_text(_configuration(output, outside), "utf-8")
    return _sections(pages)


def staged(path: Path) -> Path:
    """Return the path of a repository's file within the site."""
    return path.relative_to(_DOCS) if path.is_relative_to(_DOCS) else Path(_OUTSIDE) / path.relative_to(ROOT)


def rewritten(text: str, path: Path) -> tuple[str, list[Path]]:
    """Return a page with links adjusted to its place in the site, and the files that it links to."""
    targets: list[Path] = []

    def target_of(link: str) -> str | None:
        """Return a link for the site; None for a folder without a README, which the site does not have."""
        if not link or re.match(r"[a-z]+:", link):
            return link
        target = (path.parent / link).resolve()
        if target.is_dir():
            target /= "README.md"
            if not target.exists():
                return None
        targets.append(target)
        if not target.is_relative_to(ROOT):
            return link
        return os.path.relpath(staged(target), staged(path).parent)

    def markdown(match: re.Match[str]) -> str:
        mark, label, link, anchor = match.groups()
        found = target_of(link)
        return label if found is None else f"{mark}[{label}]({found}{anchor or ''})"

    parts = _FENCED.split(text)
    for number in range(0, len(parts), 2):
        parts[number] = _LINK.sub(markdown, parts[number])
        parts[number] = _HTML.sub(lambda match: f"{match[1]}{target_of(match[2]) or match[2]}", parts[number])
    return "".join(parts), targets


def _with_tags(text: str) -> str:
    """Return a page with its keywords as tags as well, for the search of the site."""
    match = _FRONT_MATTER.match(text)
    listed = re.search(r"^keywords: *(\[.*\])$", match[1], re.MULTILINE) if match is not None else None
    if match is None or listed is None:
        return text
    return text.replace(listed[0], f"{listed[0]}\ntags: {listed[1]}", 1)


# --- the navigation -------------------------------------------------------------------------------------------------


def _configuration(output: Path, outside: set[str]) -> str:
    """Return mkdocs.yml for the stage; its navigation has only existing pages."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    head, nav, entries = text.partition("\nnav:\n")
    lines = entries.splitlines()
    kept = [line for line in lines if (page := _page_in(line)) is None or _source(page).exists()]
    while True:  # also remove sections without pages
        empty = {
            number
            for number, line in enumerate(kept)
            if line.rstrip().endswith(":") and (number + 1 == len(kept) or _indent(kept[number + 1]) <= _indent(line))
        }
        if not empty:
            break
        kept = [line for number, line in enumerate(kept) if number not in empty]
    listed = {page for line in kept if (page := _page_in(line)) is not None}
    unlisted = "".join(f"  /{page}\n" for page in sorted(outside - listed))
    head = head.replace("not_in_nav: |\n", f"not_in_nav: |\n{unlisted}")
    head = re.sub(r"^site_dir: .*$", f"site_dir: {output}", head, flags=re.MULTILINE)
    return f"{head}{nav}" + "\n".join(kept) + "\n"


def _page_in(line: str) -> str | None:
    match = re.match(r" *- (\S+\.md)$", line)
    return match[1] if match is not None else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _source(page: str) -> Path:
    return ROOT / page.removeprefix(f"{_OUTSIDE}/") if page.startswith(f"{_OUTSIDE}/") else _DOCS / page


def _nav() -> list[Any]:
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))  # these tags name functions
    loaded: list[Any] = yaml.safe_load(text)["nav"]
    return loaded


def _nav_pages() -> list[str]:
    return [page for section in _nav() for page in _flat(section)]


def _flat(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list | dict):
        for each in node.values() if isinstance(node, dict) else node:
            yield from _flat(each)


def _sections(pages: Path) -> list[tuple[str, list[str]]]:
    found = []
    for section in _nav():
        ((title, below),) = section.items()
        inside = [page for page in _flat(below) if (pages / page).exists()]
        if inside:
            found.append((title, inside))
    return found


# --- texts ----------------------------------------------------------------------------------------------------------


def write_texts(pages: Path, output: Path, nav: list[tuple[str, list[str]]]) -> None:
    """Write each page as Markdown, llms.txt and llms-full.txt."""
    for path in pages.rglob("*.md"):
        place = output / path.relative_to(pages)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_clean(path.read_text("utf-8")), "utf-8")
    lines = ["# SinkQL", "", "> SQL pipelines that keep Apache Iceberg tables up to date, exactly once."]
    for title, inside in nav:
        lines += ["", f"## {title}", ""]
        lines += [_line(page, (output / page).read_text("utf-8")) for page in inside]
    (output / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    every = [page for _, inside in nav for page in inside]
    every += sorted(str(path.relative_to(pages)) for path in pages.rglob("*.md") if _is_single(path, pages))
    (output / "llms-full.txt").write_text("\n".join(_whole(output, every)), "utf-8")


def _whole(output: Path, pages: Iterable[str]) -> Iterator[str]:
    for page in pages:
        yield f"<!-- {page} -->\n{(output / page).read_text('utf-8')}"


def _is_single(path: Path, pages: Path) -> bool:
    return _SINGLE.fullmatch(str(path.relative_to(pages))) is not None


def _clean(text: str) -> str:
    return _COMMENT.sub("", _FRONT_MATTER.sub("", text)).strip() + "\n"


def _line(page: str, text: str) -> str:
    """Return the line of a page in llms.txt: its title and its first sentence."""
    title = re.search(r"^# +(.+)$", text, re.MULTILINE)
    below = text[title.end() :].strip().split("\n\n")[0] if title is not None else ""
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(below.split()))[0]
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return f"- [{title[1] if title is not None else page}]({page}): {sentence}"


if __name__ == "__main__":
    sys.exit(main())
