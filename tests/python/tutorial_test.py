"""Runs every cell of docs/tutorial.ipynb, in order, and holds its outputs to those in the file.

UPDATE_GOLDEN=1 writes them anew. Where nbclient and a kernel are installed, the notebook is run by
them too, as Jupyter does.
"""

import ast
import contextlib
import io
import json
import os
import unittest
from typing import Any

import planner

PATH = os.path.join(os.environ["PLANNER_SOURCE"], "docs", "tutorial.ipynb")


def read() -> dict[str, Any]:
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of the expression that it ends with."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, PATH, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), PATH, "eval"), names)
    return printed.getvalue(), value


def outputs(printed: str, value: Any, number: int) -> list[dict[str, Any]]:
    """The same as a notebook keeps it, of results their text alone."""
    kept: list[dict[str, Any]] = []
    if printed:
        kept.append({"name": "stdout", "output_type": "stream",
                     "text": printed.splitlines(keepends=True)})
    if value is not None:
        kept.append({"data": {"text/plain": repr(value).splitlines(keepends=True)},
                     "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return kept


class Tutorial(unittest.TestCase):

    def test_cells_print_what_the_file_shows(self) -> None:
        notebook = read()
        names: dict[str, Any] = {}
        cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        pages = 0
        for number, cell in enumerate(cells, 1):
            printed, value = run("".join(cell["source"]), names)
            found = outputs(printed, value, number)
            if os.environ.get("UPDATE_GOLDEN") == "1":
                cell["outputs"], cell["execution_count"] = found, number
            self.assertEqual(found, cell["outputs"], f"cell {number}")
            if isinstance(value, planner.files.Answer):
                pages += 1
                self.assertIn("planner-part", value._repr_html_())
        self.assertGreater(pages, 1)
        if os.environ.get("UPDATE_GOLDEN") == "1":
            with open(PATH, "w", encoding="utf-8") as file:
                file.write(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")

    def test_jupyter_runs_it(self) -> None:
        try:
            import ipykernel  # noqa: F401
            import nbclient
            import nbformat
        except ImportError as error:
            self.skipTest(f"{error.name} is not installed")
        notebook = nbformat.read(PATH, as_version=4)
        nbclient.NotebookClient(notebook, kernel_name="python3", timeout=None).execute()
        html = [output["data"].get("text/html", "") for cell in notebook.cells
                for output in cell.get("outputs", []) if "data" in output]
        self.assertTrue(any("planner-part" in text for text in html))


if __name__ == "__main__":
    unittest.main()
