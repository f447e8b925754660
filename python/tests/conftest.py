import os
import pathlib
import re
import subprocess

import pytest

import pelton

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Real data, which is too large to ship.
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture
def con():
    with pelton.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def program():
    """The program `pelton`, as `cargo xtask python` builds it."""
    path = os.environ.get("PELTON_PROGRAM")
    if not path:
        pytest.skip("PELTON_PROGRAM does not name the program: run the tests by `cargo xtask python`")
    return path


@pytest.fixture
def served(program):
    """The address of a server of its own."""
    server = subprocess.Popen([program, "serve", "--postgres", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield re.search(r"listening on ([\d.]+:\d+)", server.stdout.readline()).group(1)
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()
