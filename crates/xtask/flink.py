"""Compares the expected rows of SQL scripts with the answers of a running Flink, or writes these into the scripts.

Usage: flink.py compare|bless GATEWAY SCRIPT…

Flink's SQL gateway runs the statements of each script in a session of its own, in the time zone UTC and in batch mode, or in
streaming mode if the script's first line contains `streaming mode`.

A `query` block whose comment begins with `# Differs from Flink:` expects rows that are not Flink's. The comment says what Flink
answers and why Pelton does not. Flink is asked such queries too: one whose answers agree is reported, and none is blessed.
Blocks of other kinds (`explain`, `statement error`, `read`) are skipped.
"""

import json
import math
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

SETTINGS = {
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    "pipeline.auto-watermark-interval": "0",
}
SECONDS_MAX = 120
# Mathematical functions differ in their last bits from library to library.
RELATIVE_TOLERANCE = 1e-15
DIFFERS = "# Differs from Flink"
# What the script runner prints behind the rows, and Flink does not tell.
COUNTERS = ("late rows: ", "rejected rows: ", "values that became NULL: ")


class FlinkError(Exception):
    """What Flink says of a statement that it refuses."""


class Session:
    """One session of the gateway."""

    def __init__(self, gateway, mode):
        self.base = f"{gateway}/v4"
        properties = SETTINGS | {"execution.runtime-mode": mode}
        handle = self.call("POST", f"{self.base}/sessions", {"sessionName": "pelton", "properties": properties})
        self.session = f"{self.base}/sessions/{handle['sessionHandle']}"

    @staticmethod
    def call(method, url, body=None):
        """One request; an error's innermost cause becomes a `FlinkError`."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return json.loads(answer.read() or "{}")
        except urllib.error.HTTPError as error:
            lines = "\n".join(json.loads(error.read())["errors"]).splitlines()
            causes = [line for line in lines if line.startswith("Caused by")]
            raise FlinkError((causes or lines)[-1][:500]) from None

    def run(self, statement):
        """The columns' types and the rows of a statement, each value as Flink's SQL client prints it."""
        operation = self.call("POST", f"{self.session}/statements", {"statement": statement})["operationHandle"]
        token, rows, types = 0, [], []
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            url = f"{self.session}/operations/{operation}/result/{token}?rowFormat=PLAIN_TEXT"
            page = self.call("GET", url)
            if page["resultType"] == "NOT_READY":
                time.sleep(0.05)
                continue
            types = types or [column["logicalType"] for column in page["results"]["columns"]]
            rows += [row["fields"] for row in page["results"]["data"]]
            if page["resultType"] == "EOS":
                return types, rows
            if not page["results"]["data"]:
                time.sleep(0.05)
            token = int(page["nextResultUri"].split("/result/")[1].split("?")[0])
        raise FlinkError(f"no end of the result within {SECONDS_MAX} s")

    def close(self):
        """Ends the session."""
        self.call("DELETE", self.session)


def shown(value, column_type):
    """A value in the form that scripts have."""
    name = column_type["type"]
    if value is None:
        return "NULL"
    if value == "":
        return "(empty)"
    if name == "BOOLEAN":
        return value.lower()
    if name in ("DOUBLE", "FLOAT"):
        number = float(value)
        return value if math.isnan(number) or math.isinf(number) else repr(number)
    if name.startswith("TIMESTAMP"):
        precision = column_type.get("precision", 6)
        instant, _, fraction = value.partition(".")
        digits = f".{fraction.ljust(precision, '0')}" if precision else ""
        return instant + digits + ("Z" if "LOCAL" in name else "")
    if value.strip(" ") != value or any(ord(c) < 32 or c == "\\" for c in value):
        return json.dumps(value, ensure_ascii=False)
    return value


def is_same(expected, found, column_type):
    """Whether two values in the form of scripts are equal: floating-point numbers but for their last bits."""
    if expected == found:
        return True
    if column_type["type"] in ("DOUBLE", "FLOAT"):
        try:
            return math.isclose(float(expected), float(found), rel_tol=RELATIVE_TOLERANCE)
        except ValueError:
            return False
    return False


def answer(session, text):
    """Column types and rows of the last statement of a block."""
    statements = [statement.strip() for statement in text.split(";\n") if statement.strip(" \n;")]
    result = ([], [])
    for statement in statements:
        result = session.run(statement.rstrip(";"))
    return result


def check_query(session, block, head, folder, bless):
    """A query's block as it should be, and what differs, if anything."""
    body, _, expected = block.partition("\n----")
    text = body.split("\n", 1)[1].replace("${dir}", str(folder))
    try:
        types, rows = answer(session, text)
    except FlinkError as error:
        return block, f"{body}\nFlink refuses it: {error}"
    found = [[shown(value, kind) for value, kind in zip(row, types)] for row in rows]
    lines = [line for line in expected.split("\n") if line and not line.startswith(COUNTERS)]
    counters = "".join("\n" + line for line in expected.split("\n") if line.startswith(COUNTERS))
    ours = [line.split(" | ") for line in lines]
    if "rowsort" in head:
        ours.sort()
        found.sort()
    same = len(ours) == len(found) and all(
        len(a) == len(b) and all(is_same(*cells) for cells in zip(a, b, types)) for a, b in zip(ours, found)
    )
    if same:
        return block, None
    rows_text = "".join("\n" + " | ".join(row) for row in found)
    if bless:
        return f"{body}\n----{rows_text}{counters}", None
    return block, f"{body}\nFlink:{rows_text}\nscript:" + "".join(f"\n{line}" for line in lines)


def is_kept_difference(lines):
    """Whether the comment above a block says that Flink's answer is another one."""
    return any(line.startswith(DIFFERS) for line in lines)


def check_script(gateway, path, bless):
    """How many queries a script has that Flink was asked, and what differs."""
    text = path.read_text()
    session = Session(gateway, "streaming" if "streaming mode" in text.split("\n", 1)[0] else "batch")
    blocks, problems, asked = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for block in text.rstrip("\n").split("\n\n"):
            lines = block.split("\n")
            comments = [line for line in lines if line.startswith("#")]
            body = "\n".join(line for line in lines if not line.startswith("#"))
            head = body.split("\n", 1)[0]
            if head.startswith("file "):
                content = body.split("\n", 1)[1].rsplit("----", 1)[0]
                (Path(folder) / head.split()[1]).write_text(content)
            elif head == "statement ok":
                try:
                    answer(session, body.split("\n", 1)[1].replace("${dir}", folder))
                except FlinkError as error:
                    problems.append(f"{body}\nFlink refuses it: {error}")
            elif head.startswith("query"):
                asked += 1
                differs = is_kept_difference(comments)
                body, problem = check_query(session, body, head, folder, bless and not differs)
                if differs and not problem:
                    problems.append(f"{body}\nthe answers agree: remove the comment '{DIFFERS}'")
                elif problem and not differs:
                    problems.append(problem)
            blocks.append("\n".join(comments + [body]))
    session.close()
    if bless:
        path.write_text("\n\n".join(blocks) + "\n")
    return asked, problems


def main():
    """Checks all scripts; the exit code is 1 where an answer differs."""
    action, gateway, *scripts = sys.argv[1:]
    failed = False
    for name in scripts:
        asked, problems = check_script(gateway, Path(name), action == "bless")
        print(f"{Path(name).name}: Flink was asked {asked} queries, {len(problems)} answers differ", flush=True)
        for problem in problems:
            failed = True
            print("\n" + problem + "\n", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
