"""Executes the cells of docs/notebook.ipynb and writes what they show; Jupyter is not needed.

``python docs/make/notebook.py`` writes the outputs; a test executes the cells again and compares the texts.
"""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebook.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, which name files from the folder of the notebook."""
    return {**notebook, "cells": list(_executed(notebook["cells"]))}


def _executed(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {}
    number = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            yield cell
            continue
        number += 1
        shown = _run("".join(cell["source"]), names)
        data = {} if shown is None else {"text/plain": _lines(repr(shown))}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = _lines(shown._repr_html_())  # as Jupyter asks for it
        output = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        yield {**cell, "execution_count": number, "outputs": [output] if data else []}


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line, if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  our own cells
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    os.chdir(NOTEBOOK.parent)
    notebook = executed(json.loads(NOTEBOOK.read_text("utf-8")))
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
