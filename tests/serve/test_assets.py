from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from grinch.serve import assets

PAGE = Path(assets.__file__).parent / "page"
MODULES = sorted(path.stem for path in PAGE.glob("*.js"))


def import_map(page: str) -> dict[str, str]:
    return json.loads(re.search(r'<script type="importmap"[^>]*>(.*?)</script>', page)[1])["imports"]


def test_served_page_names_all_modules_and_lets_only_its_scripts_run():
    page = assets.served_page("n0nce")
    assert import_map(page) == {f"grinch/{name}": f"./page/{name}.js" for name in MODULES}
    preloaded = re.findall(r'<link rel="modulepreload" href="./page/(.*?).js">', page)
    assert preloaded == [name for name in MODULES if not name.startswith("local")]
    scripts = re.findall(r"<script[^>]*>", page)
    assert len(scripts) == 3
    assert all('nonce="n0nce"' in script for script in scripts)
    assert "__" not in page
    assert not re.search(r"\sstyle=|https?://(?!www\.w3\.org)", page)


def test_every_import_is_a_module_that_is_there():
    for name in MODULES:
        source = assets.asset(f"{name}.js")[0].decode()
        imported = set(re.findall(r'(?:from|import\()\s*"(.*?)"', source))
        assert imported <= {f"grinch/{known}" for known in [*MODULES, "local"]}, name
        assert "innerHTML" not in source, name


def test_single_page_needs_no_other_file():
    data = base64.b64encode(b"all that is known").decode()
    page = assets.single_page(data)
    found = import_map(page)
    assert list(found) == [f"grinch/{name}" for name in MODULES]
    for name in MODULES:
        kind, _, content = found[f"grinch/{name}"].partition(";base64,")
        assert kind == "data:text/javascript"
        assert base64.b64decode(content) == (PAGE / f"{name}.js").read_bytes()
    assert (PAGE / "style.css").read_text() in page
    assert page.index(data) < page.index('import "grinch/main"')
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', page)
    assert policy.start() < page.index("<style") < page.index("<script")
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    nonce = re.search(r"script-src 'nonce-(\w+)'", policy[1])[1]
    for tag in re.findall(r"<(?:script|style)[^>]*>", page):
        assert f'nonce="{nonce}"' in tag or 'type="application/octet-stream"' in tag
    assert nonce not in assets.single_page("")
