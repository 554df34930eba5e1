"""The files of the page, served one by one or combined into one file."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def served_page(nonce: str) -> str:
    """Return the page for a server; ``nonce`` marks the scripts that its Content-Security-Policy allows.

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
    """Return content and media type of a file of the page; raises KeyError if there is none of that name.

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


def single_page(data: str) -> str:
    """Return the page as one file: styles, modules and ``data``, in base64, are inside.

    Its Content-Security-Policy lets only its own scripts run, and fetches nothing but images from https addresses.

    >>> page = single_page("")
    >>> page.index("Content-Security-Policy") < page.index("<script") and "nonce-" in page
    True
    """
    # Nothing in the data can know the hash of all of it.
    nonce = hashlib.sha256(data.encode()).hexdigest()[:32]
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data: https:;"
        " base-uri 'none'; form-action 'none'"
    )
    modules = {
        f"grinch/{name.removesuffix('.js')}": _data_url(_content(name), "text/javascript") for name in _names(".js")
    }
    return _filled(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        style=f'<style nonce="{nonce}">\n{_content("style.css").decode()}</style>',
        icon=_data_url(_content("icon.svg"), "image/svg+xml"),
        modules=modules,
        preloads="",
        data=f'<script nonce="{nonce}">globalThis.grinchExport = true;</script>\n'
        f'<script type="application/octet-stream" id="grinch-data">{data}</script>',
        nonce=f' nonce="{nonce}"',
    )


def _filled(
    *, policy: str = "", style: str, icon: str, modules: dict[str, str], preloads: str, data: str, nonce: str
) -> str:
    """Return the index with its gaps filled; the data comes last, since it may contain anything."""
    import_map = f'<script type="importmap"{nonce}>{json.dumps({"imports": modules})}</script>'
    page = _content("index.html").decode()
    for gap, content in (
        ("<!-- policy -->", policy),
        ("<!-- style -->", style),
        ("__ICON__", icon),
        ("<!-- import map -->", f"{import_map}\n{preloads}"),
        (' nonce="__NONCE__"', nonce),
        ("<!-- data -->", data),
    ):
        page = page.replace(gap, content)
    return page


def _is_served(module: str) -> bool:
    """Return whether a page with a server needs a module; those called local are for pages without."""
    return not module.startswith("grinch/local")


def _data_url(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@cache
def _names(ending: str) -> tuple[str, ...]:
    """Return the files of the page; no others are ever read."""
    found = (file.name for file in files("grinch.serve").joinpath("page").iterdir())
    return tuple(sorted(name for name in found if name.endswith(ending)))


@cache
def _content(name: str) -> bytes:
    return files("grinch.serve").joinpath("page", name).read_bytes()
