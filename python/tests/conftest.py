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


@pytest.fixture(params=["embedded", "served"])
def any_con(request):
    """A connection to an engine in this process, and one to a server's."""
    address = request.getfixturevalue("served") if request.param == "served" else None
    with pelton.connect(address) as connection:
        yield connection


@pytest.fixture(scope="session")
def program():
    """The program `pelton`, as `cargo xtask python` builds it."""
    path = os.environ.get("PELTON_PROGRAM")
    if not path:
        pytest.skip("PELTON_PROGRAM does not name the program: run the tests by `cargo xtask python`")
    return path


def start_server(program):
    """A server, and its address."""
    server = subprocess.Popen([program, "serve", "--postgres", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return server, re.search(r"listening on ([\d.]+:\d+)", server.stdout.readline()).group(1)


@pytest.fixture
def served(program):
    """The address of a server of its own."""
    server, address = start_server(program)
    try:
        yield address
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()
