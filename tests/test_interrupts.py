"""Steps that Ctrl-C does not cut in two."""

from __future__ import annotations

import signal

import pytest

from grinch._interrupts import uninterrupted


def test_a_step_is_finished_before_ctrl_c_is_heard():
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("step")
        done.append("after")
    assert done == ["step"]
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("never")
    assert done == ["step"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
