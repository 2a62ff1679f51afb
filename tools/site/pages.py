# SPDX-License-Identifier: Apache-2.0
"""What the site has besides docs/: pages of the project, files that guides link to, the reference.

A hook of MkDocs (mkdocs.yml). Links are written for a reader of the repository, so that they work
there, too: here each is turned towards the page that has what it names.
"""

from __future__ import annotations

import pathlib
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
API = ROOT / "build" / "api" / "html"
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "lab/README.md")
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
SCRIPT = "search-from-disk.js"
CODE = {".hpp": "cpp", ".cpp": "cpp", ".py": "python", ".cmake": "cmake", ".yml": "yaml"}
LINK = re.compile(r"(?<!!)(\]\()([^)\s#]+)(#[^)\s]*)?\)")
CODE_OF_PAGE = re.compile(r"^(?:```.*?^```|(?:    [^\n]*\n)+)|`(?:[^`\n]|\n(?!\n))+`", re.M | re.S)


def on_env(env, config, files):
    """In place of a script from elsewhere that the theme asks for."""
    config.extra["polyfills"] = [SCRIPT]
    return env


def on_files(files, config):
    for name in (SCRIPT, "style.css"):
        file = File.generated(config, name, abs_src_path=str(HERE / name))
        file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    for path in PROJECT:
        text = (ROOT / path).read_text(encoding="utf-8")
        # What was is not what a reader looks for.
        front = NOT_SEARCHED if path == "CHANGELOG.md" else ""
        _add(files, config, f"project/{path}", front + text)
    for path in sorted(_files_linked()):
        text = (ROOT / path).read_text(encoding="utf-8")
        kind = CODE.get(pathlib.Path(path).suffix, "text")
        page = f"{NOT_SEARCHED}# {path}\n\n````{kind}\n{text}````\n"
        _add(files, config, f"files/{path}.md", page, InclusionLevel.NOT_IN_NAV)
    for file in API.rglob("*") if API.exists() else ():
        if file.is_file():
            found = File.generated(
                config, f"api/{file.relative_to(API).as_posix()}", abs_src_path=str(file)
            )
            found.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(found)
    if not API.exists():
        text = "<!doctype html><title>Spolia</title><p>Doxygen was not there to make this."
        files.append(File.generated(config, "api/index.html", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files of the repository lead to their pages."""
    here = page.file.src_uri
    if here.startswith("files/"):
        return markdown
    before = _in_repository(here)

    def turned(match):
        target = match[2]
        if re.match(r"\w+:", target) or target.startswith("api/"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(before), target))
        if not (ROOT / path).exists():
            raise PluginError(f"{before}: there is no {path}")
        aim = posixpath.relpath(_on_site(path), posixpath.dirname(here) or ".")
        return f"{match[1]}{aim}{match[3] or ''})"

    # Code stays as it is.
    parts, at = [], 0
    for code in CODE_OF_PAGE.finditer(markdown):
        parts += [LINK.sub(turned, markdown[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, LINK.sub(turned, markdown[at:])])


def _add(files, config, uri, text, inclusion=InclusionLevel.UNDEFINED):
    file = File.generated(config, uri, content=text)
    file.inclusion = inclusion
    files.append(file)


def _in_repository(uri: str) -> str:
    return uri.partition("/")[2] if uri.startswith("project/") else f"docs/{uri}"


def _on_site(path: str) -> str:
    if path.startswith("docs/"):
        return path.partition("/")[2]
    if path in PROJECT:
        return f"project/{path}"
    if path == "README.md":
        return "index.md"
    return f"files/{path}.md"


def _files_linked() -> set[str]:
    """Files of the repository that pages link to, and that are no pages themselves."""
    found = set()
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    for page in [*pages, *PROJECT]:
        text = CODE_OF_PAGE.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for match in LINK.finditer(text):
            target = match[2]
            if re.match(r"\w+:", target) or target.startswith("api/"):
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            page_of_site = path.startswith("docs/") or path in PROJECT or path == "README.md"
            if not page_of_site and (ROOT / path).is_file():
                found.add(path)
    return found
