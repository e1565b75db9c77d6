"""What may import what: the contracts of import-linter in pyproject.toml.  And one name has one meaning."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    return subprocess.run([*command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_no_import_runs_up_and_there_is_no_circle() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_no_file_of_the_engine_includes_a_layer_above_its_own() -> None:
    """A build in few pieces, as CI makes it, finds headers of every layer; one of single files does not."""
    text = (ROOT / "engine/CMakeLists.txt").read_text("utf-8")
    layers = re.findall(r"^volley_layer\((\w+)(.*?)\)$", text, re.MULTILINE | re.DOTALL)
    below: dict[str, set[str]] = {}  # the folders that a layer and those below it are in
    wrong = []
    for name, words in layers:
        folder = (re.search(r"FOLDER (\S+)", words) or ["", f"src/{name}"])[1]
        used = re.findall(r"\bvolley_(\w+)", words)
        below[name] = {folder.split("/")[1]}.union(*(below[each] for each in used))
        for file in re.findall(r"\S+\.(?:cpp|cu)\b", words):
            included = re.findall(
                r'^#include "(\w+)/', (ROOT / "engine" / folder / file).read_text("utf-8"), re.MULTILINE
            )
            wrong += [f"{folder}/{file}: {each}" for each in included if each not in below[name]]
    assert len(below) > 10
    assert wrong == []


def test_no_program_of_the_engine_sets_a_variable() -> None:
    """The environment says how the libraries work that are measured."""
    sources = (file for part in ("src", "apps") for file in (ROOT / "engine" / part).rglob("*") if file.is_file())
    assert [file.name for file in sources if re.search(r"\b(un)?setenv\(|\bputenv\(", file.read_text("utf-8"))] == []


def test_imports_within_functions_say_why() -> None:
    """They are for start-up time, and never hide a circle: import-linter sees them too."""
    for file in (ROOT / "src" / "volley").rglob("*.py"):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if "PLC0415" in line:
                near = "\n".join(file.read_text("utf-8").splitlines()[max(0, number - 4) : number])
                assert "start-up" in near, f"{file.relative_to(ROOT)}:{number}: {line.strip()}"


def test_no_class_of_the_front_has_the_name_of_another() -> None:
    files = (ROOT / "src" / "volley").rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_class_of_the_engine_has_the_name_of_another() -> None:
    defined = re.compile(
        r"^ *(?:struct|class|enum class) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: : .*)?\s*\{", re.MULTILINE
    )
    files = [file for folder in ("src", "apps") for file in (ROOT / "engine" / folder).rglob("*") if file.is_file()]
    names = Counter(name for file in files for name in defined.findall(file.read_text("utf-8")))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_no_test_file_imports_another() -> None:
    imports = re.compile(r"^\s*(?:from|import) test_", re.MULTILINE)
    assert [file.name for file in (ROOT / "tests").rglob("*.py") if imports.search(file.read_text("utf-8"))] == []
