"""The programs of docs/python.md run."""

import os
import re

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(f"{root}/docs/python.md") as page:
    programs = re.findall(r"^```python\n(.*?)^```$", page.read(), re.M | re.S)
assert len(programs) >= 5, len(programs)
for program in programs:
    exec(compile(program, "docs/python.md", "exec"), {"__name__": "__main__"})
