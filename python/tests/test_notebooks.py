"""Notebooks: those of the package run, and what the package shows in them."""

import os

import pytest

import pelton
from conftest import DATA, ROOT

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))
EXECUTION_S_MAX = 120


def executed(cells, folder):
    """A notebook of these cells with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=EXECUTION_S_MAX, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook.cells


def html_of(cell):
    return "".join(output["data"].get("text/html", "") for output in cell.outputs if "data" in output)


@pytest.mark.skipif(not DATA.is_dir(), reason="there is no real data beside the workspace")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_run(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setitem(os.environ, "PELTON_DATA", str(DATA))
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are kept without outputs"
    NotebookClient(notebook, timeout=EXECUTION_S_MAX, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_magic_and_html(tmp_path):
    cells = executed(
        [
            "%load_ext pelton\nimport pandas\nframe = pandas.DataFrame({'i': [1, 2], 's': ['<a>', None]})",
            "%%pelton\nSELECT i, s FROM frame",
            "%%pelton numbers\nSELECT i FROM frame",
            "numbers.fetchall()",
            "%%pelton --live\nSELECT i FROM frame",
        ],
        tmp_path,
    )
    shown = html_of(cells[1])
    assert "&lt;a&gt;" in shown and "<i>NULL</i>" in shown and 'title="STRING"' in shown
    assert cells[3].outputs[0]["data"]["text/plain"] == "[(1,), (2,)]"
    live = html_of(cells[4])
    assert "The query has ended: 2 rows in, 2 rows out" in live and "<td" in live


def test_rows_that_are_shown_can_still_be_read(con):
    con.register("t", {"i": list(range(100))})
    query = con.sql("SELECT i FROM t")
    assert "… and more rows" in query._repr_html_()
    assert len(query.fetchall()) == 100
    assert "more rows" not in con.sql("SELECT 1 AS one")._repr_html_()


def test_the_live_view_without_a_notebook(con, capsys):
    con.register("t", {"i": list(range(100))})
    con.sql("SELECT i FROM t").live(rows=2)
    out = capsys.readouterr().out
    assert "100 rows in, 100 rows out" in out and out.endswith("\n98\n99\n")


def test_the_live_view_ends_when_its_time_is_over(con, capsys):
    stream = con.stream("silent", {"i": int})
    query = con.sql("SELECT i FROM silent")
    query.live(seconds=0.2)
    assert not query.has_ended and "0 rows out" in capsys.readouterr().out
    stream.close()
    assert pelton.Query is type(query)
