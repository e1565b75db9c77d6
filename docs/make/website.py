"""Build the documentation as a site, from the pages as they are: ``python docs/make/website.py``.

The pages and the files that they link to are copied to build/site/pages as they lie in the repository, so that links
to code lead to the code.  Zensical builds build/site/html; then every link of the site must lead to a file of it.
"""

import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site"
_LINK = re.compile(r"\]\(<?([^)\s>]+)")
_HREF = re.compile(r'(?:href|src)="?([^"\s>]+)')


def stage(pages: Path) -> None:
    """Copy the pages, and each file that one of them links to; of a folder a list of its files."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "results/README.md"]
    for page in found:
        targets = (unquote(urlsplit(link).path) for link in _LINK.findall(page.read_text("utf-8")))
        linked = [page.parent / target for target in targets if target]
        for path in map(Path.resolve, [page, *linked]):
            if path.is_file() and path.is_relative_to(ROOT):
                copy = pages / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            elif path.is_dir():
                names = "".join(f"<li>{escape(each.name)}</li>" for each in sorted(path.iterdir()))
                (pages / path.relative_to(ROOT)).mkdir(parents=True, exist_ok=True)
                (pages / path.relative_to(ROOT) / "index.html").write_text(f"<ul>{names}</ul>", "utf-8")


def broken(site: Path) -> list[str]:
    """Return the links of a site that lead to no file of it, each with its page."""
    problems = []
    for page in site.rglob("*.html"):
        for link in _HREF.findall(page.read_text("utf-8")):
            url = urlsplit(link)
            target = page.parent / unquote(url.path)
            own = not url.scheme and not url.netloc and url.path and not url.path.startswith("/")
            if own and not (target.is_file() or (target / "index.html").is_file()):
                problems.append(f"{page.relative_to(site)}: {link}")
    return problems


def main() -> int:
    """Build the site and check it; return the exit code."""
    shutil.rmtree(SITE, ignore_errors=True)
    stage(SITE / "pages")
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean"], cwd=ROOT, check=True)
    problems = broken(SITE / "html")
    for problem in problems:
        print(f"broken: {problem}", file=sys.stderr)
    print(f"{len(list((SITE / 'html').rglob('*.html')))} pages in {SITE / 'html'}, {len(problems)} broken links")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
