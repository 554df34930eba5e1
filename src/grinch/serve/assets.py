"""The files of the page, as the server sends them and as one file that needs no server."""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib.resources import files

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def served_page(nonce: str) -> str:
    """The page for a server; ``nonce`` is what its Content-Security-Policy lets run.

    >>> 'nonce="abc"' in served_page("abc")
    True
    """
    modules = {f"grinch/{name.removesuffix('.js')}": f"./page/{name}" for name in _names(".js")}
    return _filled(
        style='<link rel="stylesheet" href="page/style.css">',
        icon="page/icon.svg",
        modules=modules,
        # Asked for all at once, rather than one after the other as they import each other.
        preloads="\n".join(
            f'<link rel="modulepreload" href="{path}">' for name, path in modules.items() if _is_served(name)
        ),
        data="",
        nonce=f' nonce="{nonce}"',
    )


def asset(name: str) -> tuple[bytes, str]:
    """The content and the media type of a file of the page; raises KeyError if there is none of that name.

    >>> asset("icon.svg")[1]
    'image/svg+xml'
    >>> asset("../assets.py")
    Traceback (most recent call last):
        ...
    KeyError: 'the page has no file ../assets.py'
    """
    ending = name[name.rfind(".") :] if "." in name else ""
    if ending not in MEDIA_TYPES or name not in _names(ending):
        raise KeyError(f"the page has no file {name}")
    return _content(name), MEDIA_TYPES[ending]


def single_page(data_scripts: str) -> str:
    """The page as one file: styles and modules are inside, ``data_scripts`` come before the first module runs."""
    modules = {
        f"grinch/{name.removesuffix('.js')}": _data_url(_content(name), "text/javascript") for name in _names(".js")
    }
    return _filled(
        style=f"<style>\n{_content('style.css').decode()}</style>",
        icon=_data_url(_content("icon.svg"), "image/svg+xml"),
        modules=modules,
        preloads="",
        data=data_scripts,
        nonce="",
    )


def _filled(*, style: str, icon: str, modules: dict[str, str], preloads: str, data: str, nonce: str) -> str:
    """The index with its gaps filled; the data comes last, since anything may be in it."""
    import_map = f'<script type="importmap"{nonce}>{json.dumps({"imports": modules})}</script>'
    page = _content("index.html").decode()
    for gap, content in (
        ("<!-- style -->", style),
        ("__ICON__", icon),
        ("<!-- import map -->", f"{import_map}\n{preloads}"),
        (' nonce="__NONCE__"', nonce),
        ("<!-- data -->", data),
    ):
        page = page.replace(gap, content)
    return page


def _is_served(module: str) -> bool:
    """Whether a page with a server needs a module; those called local are for pages without."""
    return not module.startswith("grinch/local")


def _data_url(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@cache
def _names(ending: str) -> tuple[str, ...]:
    """The files of the page; only these are ever read, whatever is asked for."""
    found = (file.name for file in files("grinch.serve").joinpath("page").iterdir())
    return tuple(sorted(name for name in found if name.endswith(ending)))


@cache
def _content(name: str) -> bytes:
    return files("grinch.serve").joinpath("page", name).read_bytes()
