"""What MkDocs does not do by itself for pages that are also read where the sources are.

The navigation is that of the index, docs/README.md: its headings, and the pages in its tables;
the pages of a folder are those that the README.md of the folder names. Links that leave docs/
lead to pages made of the files there: Markdown as it is, sources as code, folders as a list.
"""

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
LANGUAGES = {".h": "c", ".c": "c", ".hpp": "cpp", ".cpp": "cpp", ".yaml": "yaml"}


def target(page, link):
    """The file of the tree that a link leads to, or None if it leads elsewhere."""
    path = link.partition("#")[0]
    if not path or "://" in link:
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def place(path):
    """Where the site has a file of the tree."""
    if path.startswith("docs/"):
        return path[len("docs/") :]
    return "tree/" + (path if path.endswith(".md") else path + ".md")


def origin(uri):
    """The file of the tree that a page of the site is made of."""
    if not uri.startswith("tree/"):
        return "docs/" + uri
    path = uri[len("tree/") :]
    return path if (ROOT / path).exists() else path[: -len(".md")]


def text_of(path):
    """The Markdown of a page for a file or folder outside docs/."""
    file = ROOT / path
    if file.suffix == ".md":
        return file.read_text()
    if file.is_dir():
        language = ""
        body = subprocess.run([ROOT / "site/tree", path], capture_output=True, text=True,
                              check=True).stdout
    else:
        body = file.read_text()
        language = LANGUAGES.get(file.suffix, "sh" if body.startswith("#!") else "")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{body}````\n"


def index_of(page):
    """The files that the tables of the index name, with the heading above."""
    heading = None
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| ["):
            for _, link in LINK.findall(line.split(" | ")[0]):
                path = target(page, link)
                if not (ROOT / path).exists():
                    raise PluginError(f"{page}: {link} does not exist")
                yield heading, path


def title_of(path):
    """A page of functions is called by the first of them, a source by its name."""
    if not path.endswith(".md"):
        return path.removeprefix("include/").removeprefix("examples/")
    heading = re.search(r"^# (.*)", (ROOT / path).read_text(), re.MULTILINE)[1]
    return heading.split(",")[0] if heading.startswith("tutti_") else heading


def entry(path):
    """A page in the navigation; a README.md brings the pages that it names in its folder."""
    if not path.endswith("/README.md") or not path.startswith("docs/"):
        return {title_of(path): place(path)}
    folder = posixpath.dirname(path)
    named = [target(path, link) for _, link in LINK.findall((ROOT / path).read_text())]
    below = [p for p in dict.fromkeys(named) if p and posixpath.dirname(p) == folder]
    pages = [entry(p) for p in below if p.endswith(".md") and p != path]
    return {title_of(path): [place(path)] + pages}


def on_config(config):
    sections = {}
    for heading, path in index_of("docs/README.md"):
        if heading:
            sections.setdefault(heading, []).append(entry(path))
    config.nav = [{"Home": "README.md"}] + [{h: pages} for h, pages in sections.items()]
    return config


def on_files(files, config):
    waiting = [origin(f.src_uri) for f in files if f.src_uri.endswith(".md")]
    while waiting:
        page = waiting.pop()
        for _, link in LINK.findall((ROOT / page).read_text()):
            path = target(page, link)
            if not path or path.startswith(("docs/", "..")) or path == "docs":
                continue
            if not files.get_file_from_path(place(path)) and (ROOT / path).exists():
                files.append(File.generated(config, place(path), content=text_of(path),
                                            inclusion=InclusionLevel.NOT_IN_NAV))
                if path.endswith(".md"):
                    waiting.append(path)
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    here = origin(uri)
    if uri.startswith("tree/") and not here.endswith(".md"):
        return markdown

    def moved(match):
        words, link = match.groups()
        path = target(here, link)
        if not path or not (ROOT / path).exists():  # also what only looks like a link, in code
            return match[0]
        if words.endswith(".md"):
            words = title_of(path)  # the name of the file says little to readers of the site
        where = posixpath.relpath(place(path), posixpath.dirname(uri) or ".")
        return f"[{words}]({where}{link[len(link.partition('#')[0]):]})"

    # Words behind the language of a block are for the tests.
    markdown = re.sub(r"^(```\w+) .*$", r"\1", markdown, flags=re.MULTILINE)
    return LINK.sub(moved, markdown)
