from __future__ import annotations

import signal

import pytest


@pytest.fixture
def heeds_ctrl_c():
    """Processes inherit a SIGINT that is ignored, as it is under nohup; with a handler here they start with theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
