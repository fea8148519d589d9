"""A page of its three files, of a package made by the test; tables in Markdown and LaTeX."""

from hf_summ.common.pages import latex_figure, latex_table, markdown_table, render_page


def test_a_page_has_its_files_and_escapes_texts(tmp_path, monkeypatch):
    (tmp_path / "with_page").mkdir()
    (tmp_path / "with_page" / "__init__.py").touch()
    files = {
        "page.html": "<style>{{ style | safe }}</style>{{ text }}<script>{{ script | safe }}</script>{{ script_hash }}",
        "page.css": "p { color: red; }",
        "page.js": "1 < 2",
    }
    for name, content in files.items():
        (tmp_path / "with_page" / name).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    page = render_page("with_page", text="<b>&")
    style, rest = page.removeprefix("<style>").split("</style>")
    assert style.startswith(":root {")
    assert style.endswith("p { color: red; }")
    # by `openssl dgst -sha256 -binary page.js | openssl base64`
    assert rest == "&lt;b&gt;&amp;<script>1 < 2</script>sha256-T8Xibs7zV8KTQdRXjpKJTlizX17SudRlddrZKaeFg9E="


def test_columns_are_aligned():
    rows = [["GDLF", "33.80", "a|b"], ["", "5.00", "-"]]
    assert markdown_table(["model", "R-1", "x"], rows).splitlines() == [
        "| model |   R-1 |    x |",
        "| ----- | ----: | ---: |",
        r"| GDLF  | 33.80 | a\|b |",
        "|       |  5.00 |    - |",
    ]
    assert markdown_table(["a", "b"], [], left=2).splitlines() == ["| a   | b   |", "| --- | --- |"]


def test_latex_prints_texts_as_they_are():
    figures = [latex_figure(-1.5, [-2.0, 0.0], True), latex_figure(2.0), latex_figure(None)]
    # `[` and `*` would belong to the \\ of the row above
    rows = {r"~^\{}": figures, "[a|b]": figures, "*<1>": figures}
    assert latex_table(["a_b", "%", "$"], rows).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" & a\_b & \% & \$ \\",
        r"\midrule",
        r"\textasciitilde{}\textasciicircum{}\textbackslash{}\{\} & $-1.50 \pm 1.00^{\dagger}$ & $2.00$ & -- \\",
        r"{[}a\textbar{}b] & $-1.50 \pm 1.00^{\dagger}$ & $2.00$ & -- \\",
        r"{*}\textless{}1\textgreater{} & $-1.50 \pm 1.00^{\dagger}$ & $2.00$ & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
