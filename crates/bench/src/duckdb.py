"""How fast DuckDB is: loads tables into memory, and asks a question again and again.

    python -c … THREADS SECONDS LOAD QUESTION     prints how often a second
"""

import sys
import time

import duckdb

threads, seconds, load, question = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
database = duckdb.connect(config={"threads": threads})
database.execute(load)
began, count = time.perf_counter(), 0
while count == 0 or time.perf_counter() - began < seconds:
    database.execute(question).fetchall()
    count += 1
print(count / (time.perf_counter() - began))
