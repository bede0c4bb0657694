"""Makes pages of the documents in the repository's root, and turns links that lead out of the site into links to the repository."""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/troupe-run/troupe/blob/main/"
PAGES = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security-policy.md"}


def on_files(files, config):
    for document, page in PAGES.items():
        files.append(File.generated(config, page, content=linked((ROOT / document).read_text(encoding="utf-8"), "")))
    return files


def on_page_markdown(markdown, page, **_):
    return markdown if page.file.src_uri in PAGES.values() else linked(markdown, "docs")


def linked(text, folder):
    """The text of a document in a folder of the repository, with links that work on the site."""

    def link(match):
        target = match.group(1)
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group(0)
        path, hash_, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, path))
        if path in PAGES:
            path = PAGES[path]
        elif path.startswith("docs/"):
            path = path[len("docs/"):]
        else:
            path = REPOSITORY + path
        return "](" + path + hash_ + anchor + ")"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)
