"""Everything that the desk and the story say is there in Chinese."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "dlq_admin": sorted((ROOT / "dlq_admin").rglob("*.py")),
    "platform/celeriac": [
        *sorted((ROOT / "platform/celeriac/models").glob("*.py")),
        ROOT / "platform/celeriac/observe/story.py",
    ],
}
SAYING = {"_", "gettext", "gettext_lazy", "ngettext"}


def said(source: Path) -> Iterator[str]:
    """Texts that the source passes to gettext."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYING:
            (text, *_more) = node.args
            if isinstance(text, ast.Constant):
                yield text.value


@pytest.mark.parametrize("app", SOURCES)
def test_every_text_has_a_translation(app: str) -> None:
    with (ROOT / app / "locale/zh_Hans/LC_MESSAGES/django.mo").open("rb") as compiled:
        chinese = gettext.GNUTranslations(compiled)
    texts = {text for source in SOURCES[app] for text in said(source)}
    if app == "dlq_admin":
        pages = "".join(page.read_text() for page in (ROOT / app / "templates").rglob("*.html"))
        texts |= set(re.findall(r'{% translate "([^"]+)" %}', pages))
    assert len(texts) > 50
    # A plural has no entry under its plain text; ngettext finds both.
    assert not [
        text
        for text in texts
        if text == chinese.gettext(text) == chinese.ngettext(text, text, 1) and text != "Celeriac"
    ]


@pytest.mark.parametrize("app", SOURCES)
def test_placeholders_are_kept(app: str) -> None:
    with (ROOT / app / "locale/zh_Hans/LC_MESSAGES/django.mo").open("rb") as compiled:
        catalogue = gettext.GNUTranslations(compiled)._catalog  # type: ignore[attr-defined]
    for key, chinese in catalogue.items():
        text = key[0] if isinstance(key, tuple) else key
        if "%(slots)" in chinese:  # the English singular says "only" instead of a number
            continue
        assert sorted(re.findall(r"%\(\w+\)[sd]", text)) == sorted(re.findall(r"%\(\w+\)[sd]", chinese)), text
