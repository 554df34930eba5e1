"""The explorer from Python: a server in a thread, shown in a notebook or opened in the browser."""

from __future__ import annotations

import html
import os
import threading
from collections.abc import Mapping
from typing import Any

from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.viewer import Viewer
from grinch.store.inputs import payload_list

# Notebooks are pages of servers on this machine, on whatever port.
NOTEBOOKS = ("'self'", "http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "vscode-webview:")
# Environments whose notebook server runs on another machine than the browser, which cannot reach a server here.
FAR_AWAY = ("JUPYTERHUB_USER", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "CODESPACES")


class Explorer:
    """The explorer of a tree: as the last line of a notebook cell it is shown inline, ``open()`` opens the browser.

    ``url`` is its address; ``close()`` ends its server. Points that come later to the model or the store appear.
    """

    def __init__(self, viewer: Viewer, height: int = 720):
        self.viewer, self.height = viewer, height
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The address of the page; its server is started when this is first read."""
        if self._stop.is_set():
            raise ValueError("the explorer is closed; make another one with explore()")
        if self._thread is None:
            self._start()
        return f"http://127.0.0.1:{self._port}/"

    def _start(self) -> None:
        from grinch.serve.api.app import listen, make_app, run
        from grinch.serve.api.guard import Settings

        listening = listen("127.0.0.1", 0)
        self._port = listening.getsockname()[1]
        app, ready = make_app(self.viewer, settings=Settings(frame_ancestors=NOTEBOOKS)), threading.Event()
        self._thread = threading.Thread(
            target=run, args=(app, listening), kwargs={"ready": ready.set, "stop": self._stop}, daemon=True
        )
        self._thread.start()
        if not ready.wait(30):
            raise RuntimeError("the server of the explorer did not start within 30 seconds")

    def open(self) -> None:
        """Open it in the browser."""
        import webbrowser

        webbrowser.open(self.url)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as one file that needs no server, to send to a colleague; for up to 50,000 points."""
        from grinch.serve.export import write_page

        write_page(self.viewer, path)

    def close(self) -> None:
        """End the server."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self._stop.is_set() else self.url
        return f"<Explorer of {self.viewer.n:,} points: {where}>"

    def _repr_html_(self) -> str:
        frame = f'style="width: 100%; height: {int(self.height)}px; border: 1px solid #8884; border-radius: 6px"'
        if any(name in os.environ for name in FAR_AWAY):
            from grinch.serve.export import page_of

            content = html.escape(page_of(self.viewer), quote=True)
            return f'<iframe {frame} sandbox="allow-scripts" srcdoc="{content}"></iframe>'
        return f'<iframe {frame} src="{html.escape(self.url, quote=True)}"></iframe>'


def explore(
    looked_at: Any,
    *,
    texts: Any = None,
    labels: Any = None,
    payload: Any = None,
    images: Any = None,
    height: int = 720,
    fields: dict[str, str | None] | None = None,
) -> Explorer:
    """Open a model or a store in the explorer; see :meth:`grinch.estimators.tree_clusterer.TreeClusterer.explore`."""
    folder, fields = None if images is None else _folder(images), fields or {}
    if hasattr(looked_at, "folder"):
        if texts is not None or labels is not None or payload is not None:
            raise ValueError("texts, labels and payload are for models; the points of a store have their own payload")
        return Explorer(Viewer(StoreBackend(looked_at), images=folder, **fields), height)
    rows = _rows(looked_at, texts, payload)
    return Explorer(Viewer(ModelBackend(looked_at, payload=rows), labels=labels, images=folder, **fields), height)


def _folder(images: Any) -> Any:
    from pathlib import Path

    found = Path(images)
    if not found.is_dir():
        raise NotADirectoryError(f"images must be the folder below which images are read; got {str(images)!r}")
    return found


def _rows(model: Any, texts: Any, payload: Any) -> list[Any] | None:
    """Return the payloads of all points as a list."""
    if texts is not None and payload is not None:
        raise ValueError("texts and payload are two ways to say what is shown of points: give one of them")
    given = payload if texts is None else texts
    return [given.get(name) for name in model.ids_] if isinstance(given, Mapping) else payload_list(given)
