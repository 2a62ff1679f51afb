# SPDX-License-Identifier: Apache-2.0
"""`./dev docs`: the documentation as a site under build/site that needs no network."""

from __future__ import annotations

import argparse
import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.parse

from devtool import process, setup
from devtool.process import BUILD, ROOT, dev_error, plain, say

SITE = BUILD / "site"
API = BUILD / "api"
CONFIG = str(ROOT / "mkdocs.yml")


def run(args: argparse.Namespace) -> int:
    python = setup.site_venv()
    (BUILD / "logs").mkdir(parents=True, exist_ok=True)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # of the theme, about a later version
    _reference()
    if args.serve:
        process.replace([python, "-m", "mkdocs", "serve", "--config-file", CONFIG])
    _build(python)
    faults = broken_links(SITE)
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        raise dev_error(f"{len(faults)} links of the site lead nowhere")
    if args.check:
        plain([sys.executable, "-B", str(ROOT / "tools" / "lint"), "prose", "words"])
    say(f"the site is {(SITE / 'index.html').relative_to(ROOT)}")
    return 0


def _build(python: str) -> None:
    """A warning is an error. (With --quiet MkDocs does not count them.)"""
    log = BUILD / "logs" / "site.log"
    command = [python, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", CONFIG]
    with log.open("w", encoding="utf-8") as sink:
        done = subprocess.run(command, cwd=ROOT, stdout=sink, stderr=sink, check=False)
    if done.returncode != 0:
        print(log.read_text(encoding="utf-8"), file=sys.stderr)
        raise dev_error("MkDocs has found the faults above")


def _reference() -> None:
    """Made where doxygen is, or can be had; the site says where it is missing."""
    shutil.rmtree(API, ignore_errors=True)
    if setup.obtain(setup.NEEDS["docs"]) and not shutil.which("doxygen"):
        say("without the API reference: doxygen is missing")
        return
    API.mkdir(parents=True)
    log = BUILD / "logs" / "doxygen.log"
    with log.open("w", encoding="utf-8") as sink:
        command = ["doxygen", str(ROOT / "tools" / "site" / "Doxyfile")]
        done = subprocess.run(command, cwd=ROOT, stdout=sink, stderr=sink, check=False)
    if done.returncode != 0:
        raise dev_error(f"doxygen failed; see {log.relative_to(ROOT)}")


class _page(html.parser.HTMLParser):
    """What a page links to, and the names of its places."""

    def __init__(self, file: pathlib.Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.places.update(known[name] for name in ("id", "name") if known.get(name))
        # Of what a browser fetches by itself nothing may be elsewhere.
        fetched = tag in ("img", "script", "source") or (
            tag == "link" and known.get("rel") == "stylesheet"
        )
        link = known.get("src") or (known.get("href") if tag in ("a", "link") else None)
        if link:
            self.links.append(f"fetched {link}" if fetched else link)


def broken_links(site: pathlib.Path) -> list[str]:
    """Of the site's own pages: links to files and places that are not there, and what is fetched
    from elsewhere. The reference's inner links are Doxygen's."""
    own = [one for one in sorted(site.rglob("*.html")) if one.relative_to(site).parts[0] != "api"]
    pages = {one: _page(one) for one in own}
    faults = []
    for file, page in pages.items():
        for link in page.links:
            fault = _fault(site, pages, file, link)
            if fault and file.name != "404.html":
                faults.append(f"{file.relative_to(site)}: {fault}")
    return faults


def _fault(site: pathlib.Path, pages: dict, file: pathlib.Path, link: str) -> str:
    fetched, link = link.startswith("fetched "), link.removeprefix("fetched ")
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return f"{link} is fetched from elsewhere" if fetched and parts.scheme != "data" else ""
    path = urllib.parse.unquote(parts.path)
    target = (file.parent / path).resolve() if path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()) or not target.exists():
        return f"there is no {link}"
    place = urllib.parse.unquote(parts.fragment)
    if place and target in pages and place not in pages[target].places:
        return f"{path or 'the page'} has no place {place}"
    return ""
