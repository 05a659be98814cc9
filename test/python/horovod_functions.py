"""Each name in docs/horovod-functions.md is there, or is refused in the words that the page has; of the frameworks that are installed."""

import importlib
import os
import re
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
import tutti
import tutti.horovod

tutti.horovod.install()
tutti.init()
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(f"{root}/docs/horovod-functions.md") as page:
    sections = re.split(r"^## ", page.read(), flags=re.M)[1:]


def check(module, name, status, words):
    names = vars(module)
    if status != "refused":
        assert status in ("has", "differs"), (name, status)
        eval(name, names)
        return
    try:
        exec(name, dict(names))
    except Exception as error:
        assert words and words in str(error), (name, words, error)
        return
    raise AssertionError(f"{module.__name__}: {name} is not refused")


checked = set()
for section in sections:
    title, text = section.split("\n", 1)
    rows = re.findall(r"^\| (`.*`) \| (\w+) \| (.*) ?\|$", text, re.M)
    assert rows and len(rows) == text.count("\n| `"), title
    for path in re.findall(r"`(horovod[\w.]*)`", title) or ["horovod"]:
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            assert error.name in ("keras", "tensorflow", "torch"), error
            print(f"without {error.name}: {path} is not looked at")
            continue
        checked.add(path)
        for cells, status, note in rows:
            for name in re.findall(r"`([^`]+)`", cells):
                check(module, name, status, note.strip().strip("`"))
frameworks = {path.split(".")[1] for path in checked if "." in path}
assert frameworks & {"torch", "tensorflow"} and {"common", "runner"} <= frameworks, checked
print("passed")
