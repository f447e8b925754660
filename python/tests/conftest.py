import pytest

import pelton


@pytest.fixture
def con():
    with pelton.connect() as connection:
        yield connection
