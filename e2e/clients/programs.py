"""Runs the marked Python programs of documents, and compares what they print with the comments beside their prints.

    PS=grpc://… WORKER0=grpc://… WORKER1=grpc://… python e2e/clients/programs.py docs/tutorial.md

A mark is a comment before the program: <!-- program: NAME --> or <!-- program: NAME, beside the next -->. Programs run one after the
other, but for those beside the next one. The exit status is 1 if one fails, or prints something else.
"""
import os
import re
import subprocess
import sys

LIMIT = 60  # seconds for a program


def marked(path):
    """The programs of a document: (name, whether it runs beside the next one, text)."""
    with open(path, encoding="utf-8") as f:
        found = re.findall(r"<!-- program: (\w+)(, beside the next)? -->\n```python\n(.*?)```", f.read(), re.S)
    return [(name, bool(beside), text) for name, beside, text in found]


def run(python, programs, env):
    """What does not work of the programs: {name: the error}."""
    running, wrong = [], {}
    for name, beside, text in programs:
        process = subprocess.Popen([python, "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append((name, text, process))
        if beside:
            continue
        for name, text, process in running:
            try:
                out, problems = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                out, problems = process.communicate()
                problems += "\nit did not end within %d s" % LIMIT
            want = re.findall(r"^ *print\(.*\)  # (.*)$", text, re.M)
            if process.returncode != 0:
                wrong[name] = problems.strip() or "exit code %d" % process.returncode
            elif want and out.split("\n")[:-1] != want:
                wrong[name] = "it printed %r, not %r" % (out, want)
        running = []
    return wrong


def main():
    failed = False
    for path in sys.argv[1:]:
        programs = marked(path)
        wrong = run(sys.executable, programs, os.environ)
        for name, why in wrong.items():
            print("%s: %s: %s" % (path, name, why))
        print("%s: %d programs" % (path, len(programs)))
        failed = failed or bool(wrong) or not programs
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
