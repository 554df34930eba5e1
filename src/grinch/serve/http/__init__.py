"""The server: routes over a viewer and a store, and what guards them."""
