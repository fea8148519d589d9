"""A page of its three files, of a package made by the test."""

from hf_summ.common.pages import render_page


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
