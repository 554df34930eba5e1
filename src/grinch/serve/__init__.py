"""Look at a tree in a browser, and use a store from anywhere.

``sources`` is where trees come from, ``viewer`` answers what the page asks of them, ``http`` is the server around it,
``page`` what runs in the browser, ``export`` a page that needs no server, ``client`` a store at the other end of a URL.
"""
