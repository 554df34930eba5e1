"""Look at a tree in a browser, and use a store from anywhere.

``backend`` and ``model_backend`` are where trees come from, ``views`` answers what the page asks of them (a zoom step
is a view of another node), ``api`` is the server around both, ``page`` what runs in the browser, ``export`` a page that
needs no server, ``notebook`` the explorer from Python, ``client`` a store at the other end of a URL.
"""
